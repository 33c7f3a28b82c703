// The trie of label paths of a document, and visits along it. path_replay.hpp has the theory.
#include "engines/path_replay.hpp"

#include "base/failure.hpp"

#include <algorithm>
#include <utility>

namespace treecast {

void PathReplay::add(const Query& query) {
    std::vector<FilterPattern> patterns = to_filter_patterns(query, false, {"path-replay", false});
    for (const FilterPattern& pattern : patterns)
        for (const FilterStep& step : pattern[0].steps)
            if (!step.conditions.empty()) throw Failure(Family::query, "TC150", "the replay of the distributed NFA takes paths without predicates");
    intern_labels(patterns, labels_);
    std::vector<LabelStep> steps;
    for (const FilterPattern& pattern : patterns) {
        steps.clear();
        for (const FilterStep& step : pattern[0].steps) steps.push_back(step.step);
        nfa_.insert(steps);
    }
}

void PathReplay::place(std::vector<uint32_t> owners, std::vector<uint8_t> hops, uint32_t peers) {
    owners_ = std::move(owners);
    hops_ = std::move(hops);
    peers_ = peers;
}

void PathReplay::clear() {
    received_.assign(received_.size(), 0);
    visited_.assign(visited_.size(), 0);
    documents_.assign(documents_.size(), 0);
}

// Elements come in document order, so the label path of the parent is the one that is open at its depth.
void PathReplay::gather(const Document& document) {
    nodes_.assign(1, Node());
    nodes_[0].count = 1;
    std::vector<uint32_t> open{0};
    for (uint32_t element = 0; element < document.elements(); ++element) {
        open.resize(document.depth[element] + 1);
        uint32_t parent = open.back(), name = document.name[element];
        uint32_t node = nodes_[parent].first;
        while (node != none && nodes_[node].name != name) node = nodes_[node].next;
        if (node == none) {
            node = static_cast<uint32_t>(nodes_.size());
            nodes_.push_back({name, 0, none, nodes_[parent].first});
            nodes_[parent].first = node;
        }
        ++nodes_[node].count;
        open.push_back(node);
    }
    if (waiting_.size() < nodes_.size()) waiting_.resize(nodes_.size());
}

PathReplay::Work PathReplay::replay(const Document& document, uint32_t length, uint32_t publisher) {
    size_t states = nfa_.capacity();
    for (auto* counts : {&received_, &visited_, &marks_}) counts->resize(states, 0);
    for (auto* counts : {&documents_, &last_document_, &places_}) counts->resize(states, 0);
    ++document_;
    names_.begin(document, labels_);
    gather(document);
    work_ = Work();
    publisher_ = publisher;
    uint32_t first = hops(publisher, owner(0));
    work_.messages = 1;
    work_.lookup_hops = first;
    ++received_[0];
    visit(0, {{0, 1 + first}}, length);
    return work_;
}

// Keeps one arrival for each state, with the longest chain that led there.
std::vector<PathReplay::Arrival> PathReplay::unique(std::vector<Arrival> arrivals) {
    ++mark_;
    size_t kept = 0;
    for (const Arrival& arrival : arrivals) {
        if (marks_[arrival.state] == mark_) {
            uint32_t& chain = arrivals[places_[arrival.state]].chain;
            chain = std::max(chain, arrival.chain);
            continue;
        }
        marks_[arrival.state] = mark_;
        places_[arrival.state] = static_cast<uint32_t>(kept);
        arrivals[kept++] = arrival;
    }
    arrivals.resize(kept);
    return arrivals;
}

void PathReplay::visit(uint32_t node, std::vector<Arrival> arrivals, uint32_t length) {
    Interrupt::check(arrivals.size() + 1);
    uint64_t count = nodes_[node].count;
    uint32_t farthest = 0;
    for (const Arrival& arrival : arrivals) {
        work_.chain = std::max<uint64_t>(work_.chain, arrival.chain);
        visited_[arrival.state] += count;
        if (last_document_[arrival.state] != document_) {
            last_document_[arrival.state] = document_;
            ++documents_[arrival.state];
        }
        uint32_t far = hops(publisher_, owner(arrival.state));
        work_.iterative_lookup_hops += count * far;
        farthest = std::max(farthest, far);
    }
    work_.visits += count * arrivals.size();
    work_.iterative_chain += count * (farthest + 2);
    size_t first = touched_.size();
    std::vector<uint32_t> states;
    for (const Arrival& arrival : arrivals) {
        states.assign(1, arrival.state);
        expand(node, states, length, arrival);
    }
    std::vector<Arrival>().swap(arrivals);
    std::vector<uint32_t> reached(touched_.begin() + static_cast<std::ptrdiff_t>(first), touched_.end());
    touched_.resize(first);
    for (uint32_t next : reached) visit(next, unique(std::exchange(waiting_[next], {})), length);
}

// States that a visit has reached at a node, without their //-children, which are at the same peer.
void PathReplay::expand(uint32_t node, const std::vector<uint32_t>& states, uint32_t steps, const Arrival& from) {
    std::vector<uint32_t> reached;
    for (uint32_t child = nodes_[node].first; child != none; child = nodes_[child].next) {
        const NameLabels& labels = names_[nodes_[child].name];
        reached.clear();
        uint64_t mark = ++mark_;
        auto arrive = [&](uint32_t state) {
            if (marks_[state] == mark) return;
            marks_[state] = mark;
            reached.push_back(state);
        };
        auto follow = [&](uint32_t state) {
            nfa_.follow(state, labels, arrive);
            if (nfa_.loops(state)) arrive(state);
        };
        for (uint32_t state : states) {
            follow(state);
            if (uint32_t below = nfa_.below(state); below != none) follow(below);
        }
        if (steps == 0)
            for (uint32_t state : reached) send(from, state, child);
        else if (!reached.empty())
            expand(child, std::vector<uint32_t>(reached), steps - 1, from);
    }
}

void PathReplay::send(const Arrival& from, uint32_t to, uint32_t node) {
    uint64_t count = nodes_[node].count;
    uint32_t far = hops(owner(from.state), owner(to));
    work_.messages += count;
    work_.lookup_hops += count * far;
    received_[to] += count;
    if (waiting_[node].empty()) touched_.push_back(node);
    waiting_[node].push_back({to, from.chain + 1 + far});
}

}  // namespace treecast
