// What the distributed NFA of DHT-NFA would do with documents, without any peers: which states are visited, how often, by how
// many messages, and how long the longest chain of messages is. For experiments that are too large for simulated peers.
//
// Theory of operation. A *visit* is a state that was reached with an element, at the peer that is responsible for the state. Expanding
// it consumes the events of l+1 levels below the element; states that are reached on the last of them get a message each, and are
// visited in turn (src/treecast/overlay/chord/fragment.py says the same for one peer). A state that gets several messages about one
// element is visited once.
//
// All of this depends on the names on the way to an element only, and of a name only on the labels that it fires. So the elements of
// all documents are grouped by these, their *label path*: a trie, in which each path knows how many elements of which documents it
// has. What happens is found once for each path, and counted for all its elements. A document of NITF with 36 KB has 860 elements and
// 170 label paths; a thousand of them have 172,000 together, and 29,000 different ones.
//
// Only lookups of the iterative method depend on more, on the publisher: they are counted by path, document and responsible peer.
#pragma once

#include "engines/path_nfa.hpp"
#include "engines/published.hpp"

#include <cstdint>
#include <span>
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
    struct Published { const Document* document; uint32_t publisher; };

    void add(const Query& query);            // throws TC150 unless it is a union of paths without predicates
    const PathNfa& nfa() const { return nfa_; }
    const LabelTable& labels() const { return labels_; }

    // Which place on the ring each state belongs to, which peer has each place, and how many hops a lookup takes:
    // from peer * places + place. Without it lookups take none.
    void place(std::vector<uint32_t> places, std::vector<uint32_t> peers, std::vector<uint8_t> hops);
    bool knows_peer(uint32_t peer) const { return peers_.empty() || size_t(peer) * peers_.size() < hops_.size(); }
    std::vector<Work> replay(std::span<const Published> documents, uint32_t length);

    // Over all documents since clear(), by state.
    const std::vector<uint64_t>& received() const { return received_; }     // messages
    const std::vector<uint64_t>& visited() const { return visited_; }       // visits
    const std::vector<uint32_t>& documents() const { return documents_; }   // documents that visited it
    size_t label_paths() const { return paths_.empty() ? 0 : paths_.size() - 1; }   // different ones in the last replay
    void clear();

private:
    static constexpr size_t documents_max = 1024;   // at once: a bit for each of them and for each state

    struct Occurrence { uint32_t document, count; };
    struct LabelPath {                          // of the trie of label paths
        uint32_t labels, first, next;
        uint64_t count;                      // of all documents
        std::vector<Occurrence> occurrences;
    };
    struct Arrival { uint32_t state, chain; };
    struct Sent { uint64_t messages = 0, hops = 0; };
    struct Far { uint32_t place, count; };

    void replay_some(std::span<const Published> documents, uint32_t length, Work* work);
    void gather(uint32_t number, const Document& document);
    uint32_t class_of(const NameLabels& labels);
    void visit(uint32_t path, std::vector<Arrival> arrivals, uint32_t length);
    void count_visits(const LabelPath& path, const std::vector<Arrival>& arrivals);
    void count_work(uint32_t path, const std::vector<Arrival>& arrivals);
    void expand(uint32_t path, const std::vector<uint32_t>& states, uint32_t steps, const Arrival& from);
    void send(const Arrival& from, uint32_t to, uint32_t path);
    std::vector<Arrival> unique(std::vector<Arrival> arrivals);
    uint32_t place_of(uint32_t state) const { return peers_.empty() ? 0 : places_[state]; }
    uint32_t peer_of(uint32_t state) const { return peers_.empty() ? 0 : peers_[places_[state]]; }
    uint32_t hops(uint32_t peer, uint32_t place) const { return peers_.empty() ? 0 : hops_[size_t(peer) * peers_.size() + place]; }

    PathNfa nfa_;
    LabelTable labels_;
    ResolvedNames names_;
    std::vector<uint32_t> places_, peers_;
    std::vector<uint8_t> hops_;

    // Of the documents that are replayed together.
    std::span<const Published> published_;
    Work* work_ = nullptr;
    std::vector<NameLabels> classes_;            // names that fire the same labels are one
    std::vector<LabelPath> paths_;
    std::vector<std::vector<Arrival>> waiting_;  // by path
    std::vector<Sent> sent_;                     // by path, for one element of it
    std::vector<uint32_t> touched_;              // paths that something waits at
    std::vector<uint64_t> marks_;                // by state
    std::vector<uint32_t> spots_;                // by state: where it is in a list, if it is marked
    uint64_t mark_ = 0;
    std::vector<uint32_t> here_;                 // by place: states that are visited at a path
    std::vector<Far> far_;
    size_t words_ = 0;
    std::vector<uint64_t> seen_;                 // by state: a bit for each document that visited it

    std::vector<uint64_t> received_, visited_;
    std::vector<uint32_t> documents_;
};

}  // namespace treecast
