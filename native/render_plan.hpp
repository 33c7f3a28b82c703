// Subscriptions as the Renderer knows them: read once, with everything worked out that no document changes.
#pragma once

#include "seeded_hash.hpp"
#include "store.hpp"
#include "transformation.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace treecast {

// Keys as numbers, and how many plans use each.
class Keys {
public:
    uint32_t use(std::string_view key);
    void leave(uint32_t number) { --uses_[number]; }
    uint32_t uses(uint32_t number) const { return uses_[number]; }
    uint32_t size() const { return static_cast<uint32_t>(uses_.size()); }
    uint64_t bytes() const { return strings_.bytes() + keys_.capacity() * sizeof(std::string_view); }
    void clear();

private:
    StringArena strings_;
    std::vector<std::string_view> keys_;
    std::vector<uint32_t> uses_;
    IdSlots slots_;
};

// What is known of one Shape of a transformation. Slices are of Plan::literals, ranges of Plan::outer.
struct PartPlan {
    uint32_t key = no_entry;              // element: shared with the same shape of other plans
    uint32_t outer = 0, outer_end = 0;    // the variables that go with the key, in its order
    uint32_t clauses_key = no_entry;      // flwr that depends on no variable around it: of what it binds
    uint32_t width = 0;                   // flwr: variables it binds
    bool each = false;                    // flwr: it binds something, be it the document
    bool plain = false;                   // element: neither it nor its attributes have namespaces, and it declares none
    bool constant = false;                // attribute of a start tag: `opening` is all of it
    bool planned = false;                 // what a let holds may stand in several places
    Slice opening;                        // element: <name; attribute: ` name="` or all of it; text: itself, escaped
    Slice closing;                        // element: </name>
};

struct Plan {
    enum class Is : uint8_t { document, elements, built, list };
    Is is = Is::document;
    std::string text;
    Settings settings;
    uint32_t key = no_entry;              // equal for plans that give equal payloads
    Query query;                          // elements
    Transformation transformation;        // built, list
    bool binds = false;                   // built: there is a `for`, so that only bindings make a delivery
    std::vector<PartPlan> parts;          // by Shape
    std::vector<uint32_t> outer;
    std::vector<uint32_t> paths, conditions;   // entries that are asked for
    std::string literals;
    uint64_t bytes = 0;                   // of memory, roughly

    std::string_view literal(Slice slice) const { return {literals.data() + slice.begin, slice.size}; }
};

// Throws Failure where the text cannot be read.
std::unique_ptr<Plan> make_plan(std::string_view text, const Settings& settings, Keys& keys);

// Plans by text and settings. Two generations: when the young one is full the old one is dropped, and what is asked for
// becomes young again, so what is in use stays.
class PlanCache {
public:
    explicit PlanCache(uint64_t bytes_max = 64ull << 20) : bytes_max_(bytes_max) {}
    // The plan lives until the next call.
    const Plan& find(std::string_view text, const Settings& settings);
    const Keys& keys() const { return keys_; }
    uint64_t parsed() const { return parsed_; }
    // Numbers of keys change their meaning when this does.
    uint64_t generation() const { return generation_; }

private:
    struct Generation {
        std::unordered_multimap<uint64_t, std::unique_ptr<Plan>> plans;
        uint64_t bytes = 0;
    };
    static Plan* look_up(Generation& generation, uint64_t hash, std::string_view text, const Settings& settings);
    const Plan& keep(uint64_t hash, std::unique_ptr<Plan> plan);
    void drop(Generation& generation);

    const uint64_t bytes_max_;
    Keys keys_;
    Generation young_, old_;
    uint64_t parsed_ = 0, generation_ = 0;
};

}  // namespace treecast
