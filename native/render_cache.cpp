// The plans that are kept, and the numbers that they share.
#include "render_plan.hpp"

namespace treecast {

namespace {

constexpr uint64_t keys_bytes_max = 64ull << 20;

uint64_t hash_of(std::string_view text, const Settings& settings) {
    uint64_t hash = hash_bytes(text, settings.deliver * 2u + settings.ordered);
    for (const auto& [prefix, uri] : settings.bindings) hash = hash_bytes(uri, hash_bytes(prefix, hash));
    return hash;
}

}  // namespace

uint32_t Keys::use(std::string_view key) {
    uint64_t hash = hash_bytes(key);
    uint32_t found = slots_.find(hash, [&](uint32_t other) { return keys_[other] == key; });
    if (found == IdSlots::empty) {
        found = size();
        keys_.push_back(strings_.keep(key));
        uses_.push_back(0);
        slots_.add(hash, found, [&](uint32_t earlier) { return hash_bytes(keys_[earlier]); });
    }
    ++uses_[found];
    return found;
}

void Keys::clear() {
    strings_.reset();
    keys_.clear();
    uses_.clear();
    slots_.reset();
}

// What is known of a document's names holds for the next one, if that has brought no new ones.
void PathNames::begin(const NameTable& names) {
    if (names_ == &names && generation_ == names.generation() && names_known_ == names.size()) return;
    names_ = &names;
    generation_ = names.generation();
    names_known_ = names.size();
    ++stamp_;
}

void PathNames::clear() {
    table_.reset();
    resolved_.clear();
}

std::unique_ptr<Plan>* PlanCache::Generation::find(uint64_t hash, std::string_view text, const Settings& settings) {
    size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask; slots_[at].used; at = (at + 1) & mask) {
        Slot& slot = slots_[at];
        if (slot.hash != hash || !slot.plan) continue;
        if (slot.plan->text() == text && slot.plan->settings == settings) return &slot.plan;
    }
    return nullptr;
}

void PlanCache::Generation::add(std::unique_ptr<Plan> plan) {
    bytes += plan->bytes;
    if (++used_ * 2 > slots_.size()) {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (Slot& slot : old)
            if (slot.used) place(slot.hash, std::move(slot.plan));
    }
    uint64_t hash = plan->hash;
    place(hash, std::move(plan));
}

void PlanCache::Generation::place(uint64_t hash, std::unique_ptr<Plan> plan) {
    size_t mask = slots_.size() - 1, at = hash & mask;
    while (slots_[at].used) at = (at + 1) & mask;
    slots_[at].hash = hash;
    slots_[at].used = true;
    slots_[at].plan = std::move(plan);
}

const Plan& PlanCache::find(std::string_view text, const Settings& settings) {
    uint64_t hash = hash_of(text, settings);
    if (auto* found = young_.find(hash, text, settings)) return **found;
    if (keys_.bytes() + names_.bytes() > keys_bytes_max) {
        drop(young_);
        drop(old_);
        keys_.clear();
        names_.clear();
        ++generation_;
    }
    if (auto* found = old_.find(hash, text, settings)) {
        std::unique_ptr<Plan> plan = std::move(*found);
        old_.bytes -= plan->bytes;
        return keep(std::move(plan));
    }
    ++parsed_;
    std::unique_ptr<Plan> plan = make_plan(text, settings, keys_, names_);
    plan->hash = hash;
    return keep(std::move(plan));
}

const Plan& PlanCache::keep(std::unique_ptr<Plan> plan) {
    if (young_.bytes + plan->bytes > bytes_max_ / 2) {
        drop(old_);
        std::swap(young_, old_);
    }
    const Plan& kept = *plan;
    young_.add(std::move(plan));
    return kept;
}

void PlanCache::drop(Generation& generation) {
    generation.each([this](const Plan& plan) {
        keys_.leave(plan.key);
        for (const Op& op : plan.ops)
            if (op.key != no_entry) keys_.leave(op.key);
    });
    generation = Generation();
}

}  // namespace treecast
