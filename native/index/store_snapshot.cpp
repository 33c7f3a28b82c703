// Saves and loads a Store. See base/snapshot.hpp for the file.
//
// A current file is mapped and used as it is. Of any other version only the stable parts are read, and the rest is built again.
#include "base/digest.hpp"
#include "base/snapshot.hpp"
#include "base/snapshot_text.hpp"
#include "index/store.hpp"

namespace treecast {

namespace {

constexpr uint32_t texts_as_words_version = 6;

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
    for (SnapshotText text(bytes); !text.is_done();) {
        Settings settings;
        settings.ordered = text.number();
        settings.deliver = static_cast<uint8_t>(text.number());
        for (uint32_t count = text.number(); count > 0; --count) {
            std::string prefix(text.text());
            settings.bindings.emplace_back(std::move(prefix), text.text());
        }
        all.push_back(std::move(settings));
    }
    return all;
}

// What was asked for. These parts keep their place in every format version from the sixth on.
template <class Visit>
void stable_parts(Subscriptions& rows, Array<char>& about, Array<char>& settings, Visit& visit) {
    visit(about), visit(settings), visit(rows.id_ends), visit(rows.id_bytes);
    rows.texts.parts(visit);
    visit(rows.deaths), visit(rows.order);
}

// The same parts of a file of the first five versions: texts as they were given, and an array of settings.
void read_first_versions(SnapshotReader& reader, Subscriptions& rows, Array<char>& about, Array<char>& settings) {
    Array<uint64_t> text_ends;
    Array<char> text_bytes;
    Array<uint32_t> slot_settings;
    reader(about), reader(settings), reader(rows.id_ends), reader(rows.id_bytes), reader(text_ends), reader(text_bytes);
    reader(slot_settings), reader(rows.deaths), reader(rows.order);
    if (text_ends.size() != rows.deaths.size() + 1 || slot_settings.size() != rows.deaths.size()) SnapshotReader::damaged();
    for (uint32_t slot = 0; slot < slot_settings.size(); ++slot) {
        const uint64_t begin = text_ends[slot], end = text_ends[slot + 1];
        if (begin > end || end > text_bytes.size()) SnapshotReader::damaged();
        rows.texts.add({text_bytes.data() + begin, end - begin}, slot_settings[slot]);
    }
}

// Seeds for the tables of a saved file, derived from everything that decides what is in them and where.
// So nobody can choose keys and keep the seeds as they were. See base/seeded_hash.hpp.
HashSeeds content_seeds(Subscriptions& rows, const Array<char>& settings, const Engine& engine) {
    Digest digest;
    digest.add_array(settings);
    digest.add_array(rows.id_ends), digest.add_array(rows.id_bytes);
    rows.texts.parts([&](const auto& array) { digest.add_array(array); });
    digest.add_array(rows.deaths), digest.add_array(rows.order);
    engine.add_to(digest);
    return digest.seeds();
}

}  // namespace

// The bytes depend only on the calls that were made: tombs are left out, and seeds come from the content.
void Store::save(const std::string& path, std::string_view about) const {
    std::lock_guard lock(write_mutex_);
    Array<char> about_bytes = to_array(std::string(about)), settings = write_settings(*body_->settings);
    SnapshotWriter writer;
    stable_parts(*body_, about_bytes, settings, writer);
    HashSeeds seeds = content_seeds(*body_, settings, *engine_);
    Array<uint32_t> id_table = body_->lay_out_table(seeds);
    uint32_t tombs = 0;
    engine_->save(writer, {id_table, tombs, body_->live, body_->version, seeds});
    writer.write(path);
}

std::string Store::saved_about(const std::string& path) {
    SnapshotReader reader(path, false);
    Array<char> about;
    reader(about);
    return {about.data(), about.size()};
}

// Sizes are checked here, because a damaged file must not lead to reads outside its arrays.
bool Store::load(const std::string& path, bool verify) {
    SnapshotReader reader(path, verify);
    auto body = std::make_unique<Body>(seeds_);
    Array<char> about, settings;
    const bool has_texts_as_given = reader.version() < texts_as_words_version;
    if (has_texts_as_given)
        read_first_versions(reader, *body, about, settings);
    else
        stable_parts(*body, about, settings, reader);
    size_t slots = body->deaths.size();
    if (body->id_ends.size() != slots + 1 || (!has_texts_as_given && !body->texts.adopt(static_cast<uint32_t>(slots))) ||
        (body->order.size() && body->order.size() != slots))
        SnapshotReader::damaged();
    if (!body->order.size()) body->order = {};
    std::vector<Settings> all_settings = read_settings(settings);
    if (!reader.current() || !adopt(body, all_settings, reader)) rebuild(*body, all_settings);
    return reader.current();
}

// Takes the mapped arrays as they are, if the engine can. Afterwards `body` holds the old body.
bool Store::adopt(std::unique_ptr<Body>& body, const std::vector<Settings>& all_settings, SnapshotReader& reader) {
    auto alone = engine_->write();
    std::lock_guard lock(write_mutex_);
    Change change(*this);
    if (!engine_->load(reader, body->parts(), body->slots())) return false;
    for (const Settings& each : all_settings) body->settings->append(each);
    body->loaded_slots = body->slots();
    change.commit(*body);
    std::swap(body_, body);
    change.publish();
    return true;
}

// For another format version, or an engine that saves nothing: only ids, texts and settings are taken.
void Store::rebuild(const Subscriptions& saved, const std::vector<Settings>& all_settings) {
    const std::vector<uint32_t> slots = live_slots(saved);
    std::string texts, room;
    std::vector<size_t> ends;
    for (uint32_t s : slots) {
        texts += saved.text(s, room);
        ends.push_back(texts.size());
    }
    std::vector<Item> items;
    for (size_t i = 0; i < slots.size(); ++i) {
        const uint32_t settings = saved.texts.settings(slots[i]);
        if (settings >= all_settings.size()) SnapshotReader::damaged();
        const size_t begin = i ? ends[i - 1] : 0;
        items.push_back({saved.id(slots[i]), {texts.data() + begin, ends[i] - begin}, &all_settings[settings]});
    }
    std::vector<Refusal> refused;
    add(items, refused);
    if (!refused.empty()) throw refused[0].failure;
}

}  // namespace treecast
