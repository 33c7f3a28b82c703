// Which of a few targets a subscription stands for: what routing asks of an index instead of ids.
//
// Subscriptions that are routed by have numbers as ids. A target is a bit. Slots are what machines answer with, so the bits are
// kept by slot: new slots are entered when they are first seen, and all of them anew once slots were renumbered.
//
// A subscription may stand for many that differ in values only. Then a target wants a document if it has a value that is in the
// target's set, and of several such places, if that holds for each of them (value_set.hpp). Where in the document the value
// stands, the subscription has said; here it is any element of that name.
//
// Where a subscription says nothing but the path of an element and that it has a value, no machine is needed: find() looks the values
// of a document up, and walks up from an element whose value a target wants. That is exact: the value has to stand where
// the path leads. Machines run only for targets that other subscriptions have as well, and for a document that would take too much work.
#pragma once

#include "base/fork.hpp"
#include "base/seeded_hash.hpp"
#include "engines/engine.hpp"
#include "engines/subscriptions.hpp"
#include "index/value_places.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace treecast {

// Where values stand: in an attribute of elements of a name, or as their text.
struct ValuePlace {
    std::string element_uri, element;       // no name: of any element
    std::string attribute_uri, attribute;   // no name: the text of the element itself
};

// A step of the path to the element that has the value.
struct ValueStep {
    bool is_anywhere = false;               // `//name`, not `/name`
    std::string uri, name;                  // no name: any element
};

// How many have each bit.
class BitCounts {
public:
    void add(uint64_t bits);
    void remove(uint64_t bits);
    uint64_t bits() const { return bits_; }     // that at least one has

private:
    std::array<uint32_t, 64> counts_{};
    uint64_t bits_ = 0;
};

class Targets final : public ValueTargets {
public:
    using Sets = std::vector<std::pair<ValuePlace, std::shared_ptr<ValueSet>>>;
    // The targets of the subscription with this number; 0 forgets it, which comes before the index does. What is unknown stands
    // for no target. With `sets`, which have the same bits: those of the targets whose sets have a value of the document.
    // `path`: all that the subscription says besides, if it is about one value of the element that the path leads to.
    void set(uint64_t number, uint64_t targets, const Sets& sets = {}, const std::vector<ValueStep>& path = {});
    // By slot, as many as the View has. Valid until the next call; whoever uses it holds mutex().
    const std::vector<uint64_t>& of(const View& view);
    LastingMutex& mutex() { return mutex_; }

    uint64_t find(const Document& document, uint64_t enough, uint64_t found) override;
    bool is_open(uint64_t found) const override { return !is_sure_ || (open_.bits() & ~found); }
    uint64_t targets_of(uint32_t slot, const Document& document, uint64_t found) override;
    const ValuePlaces& places() const { return places_; }       // for tests

private:
    static constexpr uint32_t unseen = ~0u;
    static constexpr size_t decided_max = 16;               // at one place: a value is looked up in each of their sets
    static constexpr uint64_t steps_per_item_max = 16;      // compared for each element and attribute of a document
    static constexpr size_t together_max = 8;               // values that are looked up together
    struct Entry {
        uint64_t targets = 0;
        uint32_t slot = unseen;
        std::vector<std::pair<ValuesAt*, std::shared_ptr<ValueSet>>> sets{};
        LinearPath path{};                                  // of one that is decided by its values
        bool is_decided() const { return !path.steps.empty(); }
    };
    struct Sighting {                                       // a value at a place
        ValuesAt* place;
        uint32_t value;
    };
    uint64_t decide(const Sighting& sighting, const Document& document, uint64_t found, uint64_t& steps_left);
    uint64_t word_of(const Entry& entry) const { return entry.sets.empty() ? entry.targets : entry.targets | marker; }
    BitCounts& counts_of(const Entry& entry) { return entry.is_decided() ? decided_ : open_; }
    void enter(Entry& entry, const Sets& sets, const std::vector<ValueStep>& path);
    void withdraw(Entry& entry);

    LastingMutex mutex_;
    std::map<uint64_t, Entry> entries_;                     // by number
    BitCounts decided_, open_;                              // targets of those that values decide, and of the others
    std::vector<uint64_t> of_slot_;
    NumberMap<uint32_t, Entry*> with_sets_;                 // by slot
    FormNames names_;
    ValuePlaces places_;
    bool is_sure_ = true;                                   // what is decided by values, is decided for this document
    uint64_t serial_ = 0;                                   // of the body that the slots belong to
};

}  // namespace treecast
