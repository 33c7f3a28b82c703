// Which of a few targets a subscription stands for: what routing asks of an index instead of ids.
//
// Subscriptions that are routed by have numbers as ids. A target is a bit. Slots are what machines answer with, so the bits are
// kept by slot: new slots are entered when they are first seen, and all of them anew once slots were renumbered.
//
// A subscription may stand for many that differ in values only. Then a target wants a document if it has a value that is in the
// target's set, and of several such places, if that holds for each of them (value_set.hpp). Where in the document the value
// stands, the subscription has said; here it is any element of that name.
#pragma once

#include "base/fork.hpp"
#include "base/seeded_hash.hpp"
#include "engines/engine.hpp"
#include "engines/subscriptions.hpp"
#include "index/value_set.hpp"

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
    auto operator<=>(const ValuePlace&) const = default;
};

class Targets final : public ValueTargets {
public:
    using Sets = std::vector<std::pair<ValuePlace, std::shared_ptr<ValueSet>>>;
    // The targets of the subscription with this number; 0 forgets it. What is unknown stands for no target.
    // With `sets`, which have the same bits: those of the targets whose sets have a value of the document.
    void set(uint64_t number, uint64_t targets, const Sets& sets = {});
    // By slot, as many as the View has. Valid until the next call; whoever uses it holds mutex().
    const std::vector<uint64_t>& of(const View& view);
    LastingMutex& mutex() { return mutex_; }

    void begin_document() { ++document_; }                  // values that were looked up do not hold any more
    uint64_t targets_of(uint32_t slot, const Document& document, uint64_t found) override;

private:
    static constexpr uint32_t unseen = ~0u;
    struct Values {                                         // that one document has at a place
        uint64_t document = 0;
        bool is_known = true;                               // false: too much text to look at
        std::vector<uint64_t> hashes;
    };
    using Places = std::map<ValuePlace, Values>;
    struct Entry {
        uint64_t targets = 0;
        uint32_t slot = unseen;
        std::vector<std::pair<Places::value_type*, std::shared_ptr<ValueSet>>> sets{};
    };
    uint64_t word_of(const Entry& entry) const { return entry.sets.empty() ? entry.targets : entry.targets | marker; }
    const Values& values_at(Places::value_type& place, const Document& document);

    LastingMutex mutex_;
    std::map<uint64_t, Entry> entries_;                     // by number
    std::vector<uint64_t> of_slot_;
    NumberMap<uint32_t, Entry*> with_sets_;                 // by slot
    Places places_;
    uint64_t serial_ = 0;                                   // of the body that the slots belong to
    uint64_t document_ = 0;
    std::string text_;
};

}  // namespace treecast
