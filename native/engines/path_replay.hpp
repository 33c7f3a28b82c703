// What the distributed NFA of DHT-NFA would do with a document, without any peers: which states are visited, how often, by how
// many messages, and how long the longest chain of messages is. For experiments that are too large for simulated peers.
//
// Theory of operation. A *visit* is a state that was reached with an element, at the peer that is responsible for the state. Expanding
// it consumes the events of l+1 levels below the element; states that are reached on the last of them get a message each, and are
// visited in turn (src/treecast/overlay/chord/fragment.py says the same for one peer). A state that gets several messages about one
// element is visited once.
//
// All of this depends on the names on the way to an element only. So elements are grouped by these, their *label path*, and what
// happens is found once for each label path and counted for all its elements. A document of 36 KB has some hundred label paths.
#pragma once

#include "engines/path_nfa.hpp"
#include "engines/published.hpp"

#include <cstdint>
#include <vector>

namespace treecast {

class PathReplay {
public:
    // Totals of one document.
    struct Work {
        uint64_t messages = 0;               // recursive: one for each state and element that a visit leads to, and one to begin
        uint64_t lookup_hops = 0;            // what finding their receivers takes
        uint64_t visits = 0;                 // iterative: each is a question and an answer
        uint64_t iterative_lookup_hops = 0;  // from the publisher
        uint64_t chain = 0;                  // recursive: the longest chain of messages and hops
        uint64_t iterative_chain = 0;        // one element after the other, its states at once, there and back
    };

    void add(const Query& query);            // throws TC150 unless it is a union of paths without predicates
    const PathNfa& nfa() const { return nfa_; }
    const LabelTable& labels() const { return labels_; }

    // Who is responsible for which state, and how many hops a lookup takes: from * peers + to. Without it lookups take none.
    void place(std::vector<uint32_t> owners, std::vector<uint8_t> hops, uint32_t peers);
    Work replay(const Document& document, uint32_t length, uint32_t publisher);

    // Over all documents since clear(), by state.
    const std::vector<uint64_t>& received() const { return received_; }     // messages
    const std::vector<uint64_t>& visited() const { return visited_; }       // visits
    const std::vector<uint32_t>& documents() const { return documents_; }   // documents that visited it
    void clear();

private:
    struct Node {                            // of the trie of label paths
        uint32_t name = none, count = 0, first = none, next = none;
    };
    struct Arrival { uint32_t state, chain; };

    void gather(const Document& document);
    void visit(uint32_t node, std::vector<Arrival> arrivals, uint32_t length);
    void expand(uint32_t node, const std::vector<uint32_t>& states, uint32_t steps, const Arrival& from);
    void send(const Arrival& from, uint32_t to, uint32_t node);
    std::vector<Arrival> unique(std::vector<Arrival> arrivals);
    uint32_t hops(uint32_t from, uint32_t to) const { return peers_ ? hops_[size_t(from) * peers_ + to] : 0; }
    uint32_t owner(uint32_t state) const { return peers_ ? owners_[state] : 0; }

    PathNfa nfa_;
    LabelTable labels_;
    ResolvedNames names_;
    std::vector<uint32_t> owners_;
    std::vector<uint8_t> hops_;
    uint32_t peers_ = 0;

    std::vector<Node> nodes_;
    std::vector<std::vector<Arrival>> waiting_;  // by node
    std::vector<uint32_t> touched_;              // nodes that something waits at
    std::vector<uint64_t> marks_;                // by state
    std::vector<uint32_t> places_;               // by state: where it is in a list, if it is marked
    uint64_t mark_ = 0;
    Work work_;
    uint32_t publisher_ = 0;

    std::vector<uint64_t> received_, visited_;
    std::vector<uint32_t> documents_, last_document_;
    uint32_t document_ = 0;
};

}  // namespace treecast
