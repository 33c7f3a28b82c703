// The cache of plans, and the numbers that plans share.
//
// A subscription is found in up to three ways, from cheap to expensive: by its slot, by the form of its text, or by parsing.
// Two generations approximate "least recently used" without any work on a hit.
#include "render/render_plan.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace treecast {

namespace {

constexpr uint64_t keys_bytes_max = 64ull << 20;

uint64_t hash_of(std::string_view text, const Settings& settings) {
    uint64_t hash = hash_bytes(text, settings.deliver * 2u + settings.ordered);
    for (const auto& [prefix, uri] : settings.bindings) hash = hash_bytes(uri, hash_bytes(prefix, hash));
    return hash;
}

}  // namespace

// Counts uses, so that it is known which shapes several plans have in common.
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

// What is known about a document's names holds for the next document, if that has brought no new ones.
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

// The table is not an IdSlots (base/id_slots.hpp): its slots own the plans, which move out one by one.
// A slot whose plan was moved out stays marked as used, so that later entries are still found.
std::unique_ptr<Plan>* PlanCache::Generation::find(uint64_t hash, std::string_view text, const Settings& settings) {
    size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask; slots_[at].used; at = (at + 1) & mask) {
        Slot& slot = slots_[at];
        if (slot.hash != hash || !slot.plan) continue;
        if (slot.plan->text == text && slot.plan->settings == settings) return &slot.plan;
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

// Numbers never shrink one by one. When they take too much memory, everything starts again.
const Plan& PlanCache::find(const HeldQuery& query, Identity identity) {
    if (keys_.bytes() + names_.bytes() > keys_bytes_max) {
        drop(young_);
        drop(old_);
        programs_.clear();
        keys_.clear();
        names_.clear();
        ++generation_;
    }
    if (!identity.serial) return of_text(query.text(), query.settings());
    if (const Recent* known = recent(identity)) {
        Plan& plan = *known->plan;
        if (known->filled) {
            plan.filled = {known->literals.data(), known->filled};
            plan.unfilled = query;
        }
        return plan;
    }
    Plan& plan = of_text(query.text(), query.settings());
    remember(identity, plan);
    return plan;
}

// The data of a plan is scattered. Asking for it some deliveries ahead hides the latency of memory.
void PlanCache::prefetch(Identity identity, size_t stage) const {
    auto ask = [](const auto* from, size_t count) {
        constexpr size_t line = 64, lines_max = 12;
        const char* at = reinterpret_cast<const char*>(from);
        const char* end = at + std::min(count * sizeof(*from), lines_max * line);
        for (; at < end; at += line) __builtin_prefetch(at);
    };
    if (stage == 0) {
        if (identity.slot < recents_.size()) ask(&recents_[identity.slot], 1);
        return;
    }
    const Recent* known = recent(identity);
    if (!known) return;
    const Plan& plan = *known->plan;
    if (stage == 1) {
        ask(&plan, 1);
    } else if (const Program* body = plan.body.get()) {
        if (stage == 2) {
            ask(body, 1);
            ask(plan.places.data(), plan.places.size());
        } else {
            ask(body->ops.data(), body->ops.size());
            ask(body->literals.data(), body->literals.size());
            ask(body->steps.data(), body->steps.size());
            ask(body->outer.data(), body->outer.size());
            ask(body->variables.data(), body->variables.size());
        }
    }
}

// Only subscriptions with few literals fit; others are found by their text.
void PlanCache::remember(Identity identity, Plan& plan) {
    if (identity.slot >= recents_max || plan.filled.size() > Recent().literals.size()) return;
    if (identity.serial != recent_serial_) {
        recent_serial_ = identity.serial;
        forget_recents();
    }
    if (identity.slot >= recents_.size()) recents_.resize(std::min(recents_max, std::bit_ceil(identity.slot + size_t(1))));
    Recent& recent = recents_[identity.slot];
    recent = {&plan, stamp_, static_cast<uint32_t>(plan.filled.size()), {}};
    std::copy(plan.filled.begin(), plan.filled.end(), recent.literals.begin());
}

// Pointers to plans would dangle, so all entries become invalid by one new stamp.
void PlanCache::forget_recents() {
    if (++stamp_) return;
    recents_.clear();                // stamps begin again
    stamp_ = 1;
}

// The form is looked up first. If it does not fit this kind of text, the text gets a plan of its own.
Plan& PlanCache::of_text(std::string_view text, const Settings& settings) {
    find_form(text, form_);
    Plan& plan = of_form(settings);
    if (form_.literals.empty()) return plan;
    if (plan.unfit) {
        form_.text = text;
        form_.literals.clear();
        return of_form(settings);
    }
    plan.unfilled = HeldQuery(text, settings);       // the text of a transformation stays where it is
    filled_.clear();
    for (std::string_view literal : form_.literals) filled_.push_back(keys_.use(literal));
    plan.filled = filled_;
    return plan;
}

// Programs are shared, so the literals of the last subscription may still be in them.
void fill_clauses(const Plan& plan) {
    if (!plan.unfilled) return;
    Form form;
    find_form(plan.unfilled->text(), form);
    const std::vector<uint32_t>& values = plan.clauses->open_values;
    assert(values.size() == form.literals.size());                 // clauses hold no other literals
    plan.clauses->all->fill(values, form.literals);
    plan.unfilled.reset();
}

// A plan found in the old generation moves to the young one, so what is in use survives.
Plan& PlanCache::of_form(const Settings& settings) {
    std::string_view text = form_.text;
    uint64_t hash = hash_of(text, settings);
    if (auto* found = young_.find(hash, text, settings)) return **found;
    if (auto* found = old_.find(hash, text, settings)) {
        std::unique_ptr<Plan> plan = std::move(*found);
        old_.bytes -= plan->bytes;
        return keep(std::move(plan));
    }
    ++parsed_;
    std::unique_ptr<Plan> plan = make(settings);
    plan->hash = hash;
    return keep(std::move(plan));
}

// The first letter of the key separates the kinds of plans.
std::unique_ptr<Plan> PlanCache::make(const Settings& settings) {
    std::string_view text = form_.text;
    auto plan = std::make_unique<Plan>();
    plan->text = text;
    plan->settings = settings;
    plan->bytes = sizeof(Plan) + text.size();
    std::string key(1, 'd');
    if (is_transformation(text)) {
        auto all = std::make_shared<Transformation>();
        parse_transformation(text, settings.bindings, *all);
        // A sequence that begins with a FLWR: its clauses are not those of the whole, so literals cannot be filled in.
        // Nor where one is read twice, as a let is in terms.
        if (!form_.literals.empty() && (all->shape(all->root()).kind != ShapeKind::flwr ||
                                        all->query().literals_before(form_.head).size() != form_.literals.size())) {
            plan->unfit = true;
            plan->key = keys_.use("u");
            return plan;
        }
        if (!all->is_list()) {
            make_built(*plan, std::move(all));
            return plan;
        }
        plan->is = Plan::Is::list;
        key[0] = 'l';
        key += all->key();
        plan->list = std::move(all);
    } else if (settings.deliver) {
        auto query = std::make_unique<Query>();
        parse_query(text, settings.bindings, *query);
        plan->is = Plan::Is::elements;
        key[0] = settings.ordered ? 'o' : 'q';
        key += query->key();
        plan->query = std::move(query);
    }
    constexpr uint64_t tree_bytes_per_byte = 24;         // entries of the syntax tree, by the text they came from
    if (plan->is != Plan::Is::document) plan->bytes += text.size() * tree_bytes_per_byte;
    plan->key = keys_.use(key);
    return plan;
}

// Clauses and body get programs of their own, because many subscriptions share one but not the other.
void PlanCache::make_built(Plan& plan, std::shared_ptr<Transformation> all) {
    plan.is = Plan::Is::built;
    uint32_t body = all->root();
    std::vector<uint32_t> bound, order;
    if (all->shape(body).kind == ShapeKind::flwr) {
        // Not the key of what is bound, which nested FLWRs use too. Without its literals it is a different key.
        std::string key(1, form_.literals.empty() ? 'C' : 'F');
        key += clauses_key(*all, all->shape(body).clauses, bound);
        plan.clauses = program(key, plan.clauses_key, all, body, true);
        body = all->shape(body).first;
    }
    std::string key(1, 'b');
    key += all->shape_key(body, order);
    plan.body = program(key, plan.body_key, all, body, false);
    for (uint32_t variable : order) {
        auto at = std::find(bound.begin(), bound.end(), variable);
        if (at != bound.end()) plan.places.push_back(static_cast<uint32_t>(at - bound.begin()));
    }
    key.assign(1, 'p');
    for (uint32_t number : {plan.clauses_key, plan.body_key}) (key += std::to_string(number)) += ' ';
    for (uint32_t place : plan.places) (key += std::to_string(place)) += ' ';
    plan.key = keys_.use(key);
}

// The program of this key. The first one to ask makes it from its shape.
std::shared_ptr<const Program> PlanCache::program(const std::string& key, uint32_t& number,
                                                  const std::shared_ptr<Transformation>& all, uint32_t shape, bool clauses) {
    number = keys_.use(key);
    if (number >= programs_.size()) programs_.resize(number + 1 + number / 2);
    if (programs_[number]) return programs_[number];
    std::shared_ptr<Program> made = make_program(all, shape, clauses, keys_, names_);
    if (clauses && !form_.literals.empty()) made->open_values = all->query().literals_before(form_.head);
    program_bytes_ += made->bytes();
    return programs_[number] = std::move(made);
}

// A program that no plan uses any more is dropped, with its uses of keys.
void PlanCache::leave_program(uint32_t number) {
    if (number == no_entry) return;
    keys_.leave(number);
    if (keys_.uses(number)) return;
    for (const Op& op : programs_[number]->ops)
        if (op.key != no_entry) keys_.leave(op.key);
    program_bytes_ -= programs_[number]->bytes();
    programs_[number].reset();
}

// When the young generation is full, it becomes the old one, and the old one is dropped.
Plan& PlanCache::keep(std::unique_ptr<Plan> plan) {
    if (young_.bytes + plan->bytes > bytes_max_ / 2 || program_bytes_ > bytes_max_) {
        drop(old_);
        std::swap(young_, old_);
    }
    Plan& kept = *plan;
    young_.add(std::move(plan));
    return kept;
}

// Plans leave their keys and programs, which may live on in other plans.
void PlanCache::drop(Generation& generation) {
    forget_recents();
    generation.each([this](const Plan& plan) {
        keys_.leave(plan.key);
        leave_program(plan.clauses_key);
        leave_program(plan.body_key);
    });
    generation = Generation();
}

}  // namespace treecast
