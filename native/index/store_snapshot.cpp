// Saves and loads a Store. See base/snapshot.hpp for the file.
//
// A current file is mapped and used as it is. Of any other version only the stable parts are read, and the rest is built again.
#include "base/digest.hpp"
#include "base/snapshot.hpp"
#include "base/snapshot_text.hpp"
#include "index/store.hpp"

namespace treecast {

namespace {

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

// What was asked for. These parts keep their place in every format version.
template <class Visit>
void stable_parts(Subscriptions& rows, Array<char>& about, Array<char>& settings, Visit& visit) {
    visit(about), visit(settings), visit(rows.id_ends), visit(rows.id_bytes), visit(rows.text_ends), visit(rows.text_bytes);
    visit(rows.slot_settings), visit(rows.deaths), visit(rows.order);
}

// Seeds for the tables of a saved file, derived from everything that decides what is in them and where.
// So nobody can choose keys and keep the seeds as they were. See base/seeded_hash.hpp.
HashSeeds content_seeds(const Subscriptions& rows, const Array<char>& settings, const Engine& engine) {
    Digest digest;
    digest.add_array(settings);
    digest.add_array(rows.id_ends), digest.add_array(rows.id_bytes);
    digest.add_array(rows.text_ends), digest.add_array(rows.text_bytes);
    digest.add_array(rows.slot_settings), digest.add_array(rows.deaths), digest.add_array(rows.order);
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
    stable_parts(*body, about, settings, reader);
    size_t slots = body->deaths.size();
    if (body->id_ends.size() != slots + 1 || body->text_ends.size() != slots + 1 || body->slot_settings.size() != slots ||
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
    std::vector<Item> items;
    for (uint32_t s : live_slots(saved)) {
        if (saved.slot_settings[s] >= all_settings.size()) SnapshotReader::damaged();
        items.push_back({saved.id(s), saved.text(s), &all_settings[saved.slot_settings[s]]});
    }
    std::vector<Refusal> refused;
    add(items, refused);
    if (!refused.empty()) throw refused[0].failure;
}

}  // namespace treecast
