#include "render_plan.hpp"

#include "escape.hpp"

#include <algorithm>
#include <utility>

namespace treecast {

namespace {

constexpr size_t key_bytes_max = 4096;           // longer ones are not shared
constexpr uint64_t keys_bytes_max = 64ull << 20;

class Planner {
public:
    Planner(Plan& plan, Keys& keys) : plan_(plan), all_(plan.transformation), keys_(keys) {}

    void plan_built() {
        part(all_.root());
        auto once = [](std::vector<uint32_t>& entries) {
            std::sort(entries.begin(), entries.end());
            entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
        };
        once(plan_.paths);
        once(plan_.conditions);
    }

private:
    PartPlan& at(uint32_t index) {
        if (index >= plan_.parts.size()) plan_.parts.resize(index + 1);
        return plan_.parts[index];
    }

    void parts(uint32_t first) {
        all_.each_shape(first, [&](uint32_t index, const Shape&) { part(index); });
    }

    void part(uint32_t index) {
        if (index == no_entry) return;
        const Shape& shape = all_.shape(index);
        if (std::exchange(at(index).planned, true)) return;
        if (shape.paths != no_entry) plan_.paths.push_back(shape.paths);
        if (shape.condition != no_entry) plan_.conditions.push_back(shape.condition);
        switch (shape.kind) {
            case ShapeKind::text: at(index).opening = escaped(all_.view(shape.text), false); break;
            case ShapeKind::element: element(index, shape); break;
            case ShapeKind::flwr: flwr(index, shape); break;
            case ShapeKind::choice:
                part(shape.first);
                part(shape.other);
                return;
            case ShapeKind::attribute:
                at(index).opening = attribute_name(shape.name);
                break;
            default: break;
        }
        parts(shape.first);
    }

    Slice since(size_t begin) const {
        return {static_cast<uint32_t>(begin), static_cast<uint32_t>(plan_.literals.size() - begin)};
    }
    Slice escaped(std::string_view text, bool in_attribute) {
        size_t begin = plan_.literals.size();
        if (in_attribute) append_escaped_attribute(text, plan_.literals);
        else append_escaped_text(text, plan_.literals);
        return since(begin);
    }
    void name(const Name& name) {
        if (name.prefix.size) (plan_.literals += all_.view(name.prefix)) += ':';
        plan_.literals += all_.view(name.local);
    }
    Slice attribute_name(const Name& of) {
        size_t begin = plan_.literals.size();
        plan_.literals += ' ';
        name(of);
        plan_.literals += "=\"";
        return since(begin);
    }

    void element(uint32_t index, const Shape& shape) {
        size_t begin = plan_.literals.size();
        plan_.literals += '<';
        name(shape.name);
        at(index).opening = since(begin);
        begin = plan_.literals.size();
        plan_.literals += "</";
        name(shape.name);
        plan_.literals += '>';
        at(index).closing = since(begin);
        bool plain = !shape.name.prefix.size && !shape.name.uri.size && shape.declarations == no_entry;
        all_.each_shape(shape.other, [&](uint32_t other, const Shape& attribute) {
            plain = plain && !attribute.name.prefix.size;
            attribute_of_tag(other, attribute);
        });
        at(index).plain = plain;
        if (shape.first != no_entry || shape.other != no_entry) share(index, shape);
    }

    void attribute_of_tag(uint32_t index, const Shape& attribute) {
        if (std::exchange(at(index).planned, true)) return;
        bool constant = true;
        all_.each_shape(attribute.first, [&](uint32_t, const Shape& part) { constant = constant && part.kind == ShapeKind::text; });
        Slice opening = attribute_name(attribute.name);
        if (constant) {
            all_.each_shape(attribute.first, [&](uint32_t, const Shape& part) {
                append_escaped_attribute(all_.view(part.text), plan_.literals);
            });
            plan_.literals += '"';
            opening = since(opening.begin);
        }
        at(index).constant = constant;
        at(index).opening = opening;
        if (constant) return;
        all_.each_shape(attribute.first, [&](uint32_t other, const Shape& part) {
            if (part.kind == ShapeKind::text) at(other).opening = escaped(all_.view(part.text), true);
            else this->part(other);
        });
    }

    void flwr(uint32_t index, const Shape& shape) {
        uint32_t width = 0;
        bool each = false;
        all_.each_clause(shape.clauses, [&](uint32_t, const Clause& clause) {
            if (clause.paths != no_entry) plan_.paths.push_back(clause.paths);
            if (clause.condition != no_entry) plan_.conditions.push_back(clause.condition);
            each = each || clause.kind == ClauseKind::each;
            width += clause.kind == ClauseKind::each && clause.variable != no_entry;
        });
        at(index).each = each;
        at(index).width = width;
        plan_.binds = plan_.binds || each;
        std::vector<uint32_t> order;
        std::string key = clauses_key(shape.clauses, order);
        if (order.size() == width && key.size() <= key_bytes_max) at(index).clauses_key = keys_.use(key);
    }

    void share(uint32_t index, const Shape& shape) {
        std::vector<uint32_t> order;
        std::string key("s");
        key += all_.shape_key(index, order);
        if (key.size() > key_bytes_max) return;
        PartPlan& part = at(index);
        part.key = keys_.use(key);
        part.outer = static_cast<uint32_t>(plan_.outer.size());
        for (uint32_t variable : order)
            if (shape.variables >> variable & 1) plan_.outer.push_back(variable);
        part.outer_end = static_cast<uint32_t>(plan_.outer.size());
    }

    // `order` gets the variables that the clauses bind and mention, in this order.
    std::string clauses_key(uint32_t first, std::vector<uint32_t>& order) {
        std::string key = "c";
        all_.each_clause(first, [&](uint32_t, const Clause& clause) {
            switch (clause.kind) {
                case ClauseKind::each:
                    key += 'f';
                    key += all_.paths_key(clause.paths, order);
                    if (clause.variable != no_entry) order.push_back(clause.variable);
                    break;
                case ClauseKind::where: condition_key(clause.condition, order, key); break;
                case ClauseKind::order:
                    key += clause.counts ? 'n' : 'o';
                    key += clause.descending ? 'd' : 'a';
                    key += clause.empty_greatest ? 'g' : 'l';
                    key += all_.paths_key(clause.paths, order);
                    break;
            }
            key += ';';
        });
        return key;
    }

    void condition_key(uint32_t index, std::vector<uint32_t>& order, std::string& key) {
        const Query& query = all_.query();
        const Expr& expr = query.expr(index);
        key += static_cast<char>('A' + static_cast<int>(expr.kind));
        switch (expr.kind) {
            case ExprKind::conjunction:
            case ExprKind::disjunction:
            case ExprKind::negation:
                key += '(';
                query.each_expr(expr.first, [&](uint32_t operand, const Expr&) { condition_key(operand, order, key); });
                key += ')';
                break;
            default:
                key += all_.paths_key(expr.first, order);
                if (expr.value == no_entry) break;
                const Value& value = query.value(expr.value);
                key += static_cast<char>('0' + static_cast<int>(expr.relation));
                if (value.is_number) key += value.negative ? "-n" : "n";
                ((key += std::to_string(value.text.size)) += ':') += query.view(value.text);
        }
    }

    Plan& plan_;
    const Transformation& all_;
    Keys& keys_;
};

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

std::unique_ptr<Plan> make_plan(std::string_view text, const Settings& settings, Keys& keys) {
    auto plan = std::make_unique<Plan>();
    plan->text = text;
    plan->settings = settings;
    std::string key;
    if (is_transformation(text)) {
        parse_transformation(text, settings.bindings, plan->transformation);
        plan->is = plan->transformation.is_list() ? Plan::Is::list : Plan::Is::built;
        (key = "t") += plan->transformation.key();
    } else if (settings.deliver == 0) {
        key = "d";
    } else {
        parse_query(text, settings.bindings, plan->query);
        plan->is = Plan::Is::elements;
        (key = settings.ordered ? "o" : "q") += plan->query.key();
    }
    plan->key = keys.use(key);
    if (plan->is == Plan::Is::built) Planner(*plan, keys).plan_built();
    constexpr uint64_t tree_bytes_per_byte = 16;         // entries of a Query, by the text they came from
    plan->bytes = sizeof(Plan) + text.size() * (2 + tree_bytes_per_byte) + plan->parts.size() * (sizeof(PartPlan) + sizeof(Shape)) +
                  plan->literals.size();
    return plan;
}

const Plan& PlanCache::find(std::string_view text, const Settings& settings) {
    uint64_t hash = hash_of(text, settings);
    if (Plan* found = look_up(young_, hash, text, settings)) return *found;
    if (keys_.bytes() > keys_bytes_max) {
        drop(young_);
        drop(old_);
        keys_.clear();
        ++generation_;
    }
    auto [first, last] = old_.plans.equal_range(hash);
    for (; first != last; ++first) {
        if (first->second->text != text || !(first->second->settings == settings)) continue;
        std::unique_ptr<Plan> plan = std::move(first->second);
        old_.plans.erase(first);
        old_.bytes -= plan->bytes;
        return keep(hash, std::move(plan));
    }
    ++parsed_;
    return keep(hash, make_plan(text, settings, keys_));
}

Plan* PlanCache::look_up(Generation& generation, uint64_t hash, std::string_view text, const Settings& settings) {
    auto [first, last] = generation.plans.equal_range(hash);
    for (; first != last; ++first)
        if (first->second->text == text && first->second->settings == settings) return first->second.get();
    return nullptr;
}

const Plan& PlanCache::keep(uint64_t hash, std::unique_ptr<Plan> plan) {
    if (young_.bytes + plan->bytes > bytes_max_ / 2) {
        drop(old_);
        std::swap(young_, old_);
    }
    young_.bytes += plan->bytes;
    return *young_.plans.emplace(hash, std::move(plan))->second;
}

void PlanCache::drop(Generation& generation) {
    for (const auto& [hash, plan] : generation.plans) {
        keys_.leave(plan->key);
        for (const PartPlan& part : plan->parts) {
            if (part.key != no_entry) keys_.leave(part.key);
            if (part.clauses_key != no_entry) keys_.leave(part.clauses_key);
        }
    }
    generation.plans.clear();
    generation.bytes = 0;
}

}  // namespace treecast
