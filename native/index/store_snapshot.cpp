// Saving and loading a Store. See snapshot.hpp for the file.
#include "base/digest.hpp"
#include "index/snapshot.hpp"
#include "index/store.hpp"
#include "machines/path_key.hpp"

#include <cstring>

namespace treecast {

namespace {

void put_text(std::string& out, std::string_view text) {
    put_varint(out, static_cast<uint32_t>(text.size()));
    out += text;
}

// Reads what put_varint and put_text wrote; a damaged text is a Failure.
class Reading {
public:
    explicit Reading(const Array<char>& bytes) : at_(bytes.begin()), end_(bytes.end()) {}
    bool done() const { return at_ == end_; }
    uint32_t number() {
        uint32_t value = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            if (at_ == end_) SnapshotReader::damaged();
            unsigned char byte = static_cast<unsigned char>(*at_++);
            value |= uint32_t(byte & 0x7F) << shift;
            if (byte < 0x80) return value;
        }
        SnapshotReader::damaged();
        return 0;
    }
    std::string_view text() {
        uint32_t size = number();
        if (size > size_t(end_ - at_)) SnapshotReader::damaged();
        std::string_view found(at_, size);
        at_ += size;
        return found;
    }

private:
    const char *at_, *end_;
};

Array<char> to_array(const std::string& text) {
    Array<char> array;
    array.append(text.data(), text.size());
    return array;
}

Array<char> write_settings(const SettingsTable& all) {
    std::string out;
    for (uint32_t number = 0; number < all.size(); ++number) {
        const Settings& settings = all[number];
        put_varint(out, settings.ordered);
        put_varint(out, settings.deliver);
        put_varint(out, static_cast<uint32_t>(settings.bindings.size()));
        for (const auto& [prefix, uri] : settings.bindings) put_text(out, prefix), put_text(out, uri);
    }
    return to_array(out);
}

std::vector<Settings> read_settings(const Array<char>& bytes) {
    std::vector<Settings> all;
    for (Reading reading(bytes); !reading.done();) {
        Settings settings;
        settings.ordered = reading.number();
        settings.deliver = static_cast<uint8_t>(reading.number());
        for (uint32_t count = reading.number(); count > 0; --count) {
            std::string prefix(reading.text());
            settings.bindings.emplace_back(std::move(prefix), reading.text());
        }
        all.push_back(std::move(settings));
    }
    return all;
}

Array<char> write_labels(const LabelTable& table) {
    std::string out;
    for (uint32_t label = label_first; label < table.size(); ++label) {
        PathStep step = table.step_of(label);
        put_varint(out, static_cast<uint32_t>(step.kind));
        put_varint(out, static_cast<uint32_t>(step.test));
        put_text(out, step.uri);
        put_text(out, step.local);
    }
    return to_array(out);
}

void read_labels(const Array<char>& bytes, LabelTable& table) {
    for (Reading reading(bytes); !reading.done();) {
        PathStep step;
        step.kind = static_cast<StepKind>(reading.number());
        step.test = static_cast<Test>(reading.number());
        step.uri = reading.text();
        step.local = reading.text();
        table.intern(step);
    }
}

// What was asked for: these parts keep their place in every format version.
template <class Body, class Visit>
void stable_parts(Body& body, Array<char>& about, Array<char>& settings, Visit& visit) {
    visit(about), visit(settings), visit(body.id_ends), visit(body.id_bytes), visit(body.text_ends), visit(body.text_bytes);
    visit(body.slot_settings), visit(body.deaths), visit(body.order);
}

// What follows from that, and the two tables.
template <class Body, class Tables, class Visit>
void other_parts(Body& body, Array<char>& labels, Array<uint32_t>& delta, Tables& tables, Visit& visit) {
    visit(labels), visit(delta), visit(body.next), visit(body.judged), visit(body.slot_paths), visit(body.lists), visit(tables.ids);
    visit(body.extras), visit(body.path_bytes), visit(body.path_ends), visit(body.heads), visit(body.accept_of);
    visit(body.place_of), visit(tables.paths);
    visit(tables.tombs), visit(body.live), visit(body.version), visit(tables.seeds);
    for (auto& placed : body.places) {
        uint8_t kind = !placed ? 0 : placed->machine ? 1 : 2;
        visit(kind);
        if (kind == 0) continue;
        if (!placed) placed = std::make_shared<Placed>();
        // A machine is changed by nobody but its maker; here it is written, or filled for the first time.
        if (kind == 1) {
            if (!placed->machine) placed->machine = std::make_shared<Machine>();
            const_cast<Machine&>(*placed->machine).parts(visit);
        } else {
            if (!placed->tree) placed->tree = std::make_shared<TreeMachine>();
            const_cast<TreeMachine&>(*placed->tree).parts(visit);
        }
        visit(placed->path_of), visit(placed->slot_of), visit(placed->dirty);
    }
}

// Seeds for the tables of ids and paths, from everything that decides what is in them and where: nobody can choose some keys and leave
// the seeds as they were. See seeded_hash.hpp.
template <class Body>
HashSeeds content_seeds(const Body& body, const Array<char>& settings, const Array<char>& labels) {
    Digest digest;
    digest.add_array(settings), digest.add_array(labels);
    digest.add_array(body.id_ends), digest.add_array(body.id_bytes);
    digest.add_array(body.text_ends), digest.add_array(body.text_bytes);
    digest.add_array(body.slot_settings), digest.add_array(body.deaths), digest.add_array(body.order);
    digest.add_array(body.path_ends), digest.add_array(body.path_bytes);
    return digest.seeds();
}

}  // namespace

void Store::save(const std::string& path, std::string_view about) const {
    std::lock_guard lock(write_mutex_);
    Array<char> about_bytes = to_array(std::string(about)), settings = write_settings(*body_->settings), labels = write_labels(*body_->labels);
    Array<uint32_t> delta(body_->delta->paths());
    Tables tables = lay_out(*body_, content_seeds(*body_, settings, labels));
    SnapshotWriter writer;
    stable_parts(*body_, about_bytes, settings, writer);
    other_parts(*body_, labels, delta, tables, writer);
    writer.write(path);
}

std::string Store::saved_about(const std::string& path) {
    SnapshotReader reader(path, false);
    Array<char> about;
    reader(about);
    return {about.data(), about.size()};
}

bool Store::load(const std::string& path, bool verify) {
    SnapshotReader reader(path, verify);
    auto body = std::make_unique<Body>(seeds_);
    Array<char> about, settings, labels;
    Array<uint32_t> delta_paths;
    stable_parts(*body, about, settings, reader);
    size_t slots = body->deaths.size();
    if (body->id_ends.size() != slots + 1 || body->text_ends.size() != slots + 1 || body->slot_settings.size() != slots ||
        (body->order.size() && body->order.size() != slots))
        SnapshotReader::damaged();
    if (!body->order.size()) body->order = {};
    std::vector<Settings> all_settings = read_settings(settings);
    if (!reader.current() || !engine_.empty()) {
        rebuild(*body, all_settings);
        return reader.current();
    }
    Tables tables{};
    other_parts(*body, labels, delta_paths, tables, reader);
    body->id_table = std::move(tables.ids), body->path_table = std::move(tables.paths);
    body->tombs = tables.tombs, body->seeds = tables.seeds;
    size_t paths = body->heads.size();
    if (body->slot_paths.size() != slots || body->judged.size() != slots || body->next.size() != slots || body->path_ends.size() != paths + 1)
        SnapshotReader::damaged();
    read_labels(labels, *body->labels);
    for (const Settings& each : all_settings) body->settings->append(each);
    auto delta = std::make_shared<Delta>();
    std::vector<uint32_t> one;
    for (uint32_t path_number : delta_paths) {
        if (path_number >= paths) SnapshotReader::damaged();
        one.clear();
        plain_labels(key_of(*body, path_number), one);
        delta->add(path_number, one, *body->labels);
    }
    body->delta = std::move(delta);
    auto view = std::make_shared<View>();
    std::lock_guard lock(write_mutex_);
    std::swap(body_, body);
    publish(std::move(view));
    return true;
}

// From another format version, or for a published engine: only ids, texts and settings are taken.
void Store::rebuild(const Body& saved, const std::vector<Settings>& all_settings) {
    std::vector<Item> items;
    for (uint32_t s : live_slots(saved)) {
        if (saved.slot_settings[s] >= all_settings.size()) SnapshotReader::damaged();
        size_t text = saved.text_ends[s];
        items.push_back({id_of(saved, s), {saved.text_bytes.data() + text, saved.text_ends[s + 1] - text},
                         &all_settings[saved.slot_settings[s]]});
    }
    std::vector<Refusal> refused;
    add(items, refused);
    if (!refused.empty()) throw refused[0].failure;
}

}  // namespace treecast
