// The trie of label paths of a document, and visits along it. path_replay.hpp has the theory.
#include "engines/path_replay.hpp"

#include "base/failure.hpp"

#include <algorithm>
#include <bit>
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

void PathReplay::place(std::vector<uint32_t> places, std::vector<uint32_t> peers, std::vector<uint8_t> hops) {
    places_ = std::move(places);
    peers_ = std::move(peers);
    hops_ = std::move(hops);
}

void PathReplay::clear() {
    received_.assign(received_.size(), 0);
    visited_.assign(visited_.size(), 0);
    documents_.assign(documents_.size(), 0);
}

std::vector<PathReplay::Work> PathReplay::replay(std::span<const Published> documents, uint32_t length) {
    size_t states = nfa_.capacity();
    for (auto* counts : {&received_, &visited_, &marks_}) counts->resize(states, 0);
    for (auto* counts : {&documents_, &spots_}) counts->resize(states, 0);
    std::vector<Work> work(documents.size());
    for (size_t first = 0; first < documents.size(); first += documents_max) {
        size_t count = std::min(documents_max, documents.size() - first);
        replay_some(documents.subspan(first, count), length, work.data() + first);
    }
    return work;
}

void PathReplay::replay_some(std::span<const Published> documents, uint32_t length, Work* work) {
    published_ = documents;
    work_ = work;
    classes_.clear();
    paths_.assign(1, LabelPath{none, none, none, 0, {}});
    touched_.clear();
    for (uint32_t number = 0; number < documents.size(); ++number) gather(number, *documents[number].document);
    waiting_.assign(paths_.size(), {});          // anew: an interrupt may have left something in it
    sent_.assign(paths_.size(), Sent());
    here_.assign(peers_.size(), 0);
    words_ = (documents.size() + 63) / 64;
    seen_.assign(nfa_.capacity() * words_, 0);

    // The message to begin with goes from the publisher to whoever has the start state. Chains are counted from there.
    for (uint32_t number = 0; number < documents.size(); ++number)
        work_[number].lookup_hops = hops(documents[number].publisher, place_of(0));
    sent_[0].messages = 1;
    received_[0] += documents.size();
    visit(0, {{0, 0}}, length);
    for (size_t state = 0; state < documents_.size(); ++state)
        for (size_t word = 0; word < words_; ++word)
            documents_[state] += static_cast<uint32_t>(std::popcount(seen_[state * words_ + word]));
}

uint32_t PathReplay::class_of(const NameLabels& labels) {
    for (uint32_t at = 0; at < classes_.size(); ++at)
        if (std::equal(std::begin(labels.element), std::end(labels.element), std::begin(classes_[at].element))) return at;
    classes_.push_back(labels);
    return static_cast<uint32_t>(classes_.size() - 1);
}

// Elements come in document order, so the label path of the parent is the one that is open at its depth.
void PathReplay::gather(uint32_t number, const Document& document) {
    auto count = [&](uint32_t path) {
        LabelPath& at = paths_[path];
        ++at.count;
        if (at.occurrences.empty() || at.occurrences.back().document != number) at.occurrences.push_back({number, 0});
        ++at.occurrences.back().count;
    };
    count(0);
    names_.begin(document, labels_);
    std::vector<uint32_t> classes;               // by name of this document
    std::vector<uint32_t> open{0};
    for (uint32_t element = 0; element < document.elements(); ++element) {
        Interrupt::check(50);
        open.resize(document.depth[element] + 1);
        uint32_t parent = open.back(), name = document.name[element];
        if (classes.size() <= name) classes.resize(name + 1, none);
        if (classes[name] == none) classes[name] = class_of(names_[name]);
        uint32_t path = paths_[parent].first;
        while (path != none && paths_[path].labels != classes[name]) path = paths_[path].next;
        if (path == none) {
            path = static_cast<uint32_t>(paths_.size());
            paths_.push_back(LabelPath{classes[name], none, paths_[parent].first, 0, {}});
            paths_[parent].first = path;
        }
        count(path);
        open.push_back(path);
    }
}

// Keeps one arrival for each state, with the longest chain that led there.
std::vector<PathReplay::Arrival> PathReplay::unique(std::vector<Arrival> arrivals) {
    ++mark_;
    size_t kept = 0;
    for (const Arrival& arrival : arrivals) {
        if (marks_[arrival.state] == mark_) {
            uint32_t& chain = arrivals[spots_[arrival.state]].chain;
            chain = std::max(chain, arrival.chain);
            continue;
        }
        marks_[arrival.state] = mark_;
        spots_[arrival.state] = static_cast<uint32_t>(kept);
        arrivals[kept++] = arrival;
    }
    arrivals.resize(kept);
    return arrivals;
}

void PathReplay::visit(uint32_t path, std::vector<Arrival> arrivals, uint32_t length) {
    Interrupt::check(arrivals.size() + 1);
    count_visits(paths_[path], arrivals);
    count_work(path, arrivals);
    size_t first = touched_.size();
    std::vector<uint32_t> states;
    for (const Arrival& arrival : arrivals) {
        states.assign(1, arrival.state);
        expand(path, states, length, arrival);
    }
    std::vector<Arrival>().swap(arrivals);
    std::vector<uint32_t> reached(touched_.begin() + static_cast<std::ptrdiff_t>(first), touched_.end());
    touched_.resize(first);
    for (uint32_t next : reached) visit(next, unique(std::exchange(waiting_[next], {})), length);
}

// By state.
void PathReplay::count_visits(const LabelPath& path, const std::vector<Arrival>& arrivals) {
    struct Bits { uint32_t word; uint64_t bits; };
    std::vector<Bits> visitors;                  // most paths have few documents
    for (const Occurrence& each : path.occurrences) {
        if (visitors.empty() || visitors.back().word != each.document / 64) visitors.push_back({each.document / 64, 0});
        visitors.back().bits |= uint64_t(1) << each.document % 64;
    }
    for (const Arrival& arrival : arrivals) {
        visited_[arrival.state] += path.count;
        uint64_t* seen = seen_.data() + arrival.state * words_;
        for (const Bits& each : visitors) seen[each.word] |= each.bits;
    }
}

// By document.
void PathReplay::count_work(uint32_t path, const std::vector<Arrival>& arrivals) {
    uint32_t longest = 0;
    far_.clear();
    for (const Arrival& arrival : arrivals) {
        longest = std::max(longest, arrival.chain);
        if (!here_.empty() && here_[place_of(arrival.state)]++ == 0) far_.push_back({place_of(arrival.state), 0});
    }
    for (Far& each : far_) each.count = std::exchange(here_[each.place], 0);
    for (const Occurrence& each : paths_[path].occurrences) {
        uint32_t publisher = published_[each.document].publisher;
        uint64_t all_hops = 0;
        uint32_t farthest = 0;
        for (const Far& there : far_) {
            uint32_t far = hops(publisher, there.place);
            all_hops += uint64_t(there.count) * far;
            farthest = std::max(farthest, far);
        }
        Work& work = work_[each.document];
        work.messages += each.count * sent_[path].messages;
        work.lookup_hops += each.count * sent_[path].hops;
        work.visits += each.count * arrivals.size();
        work.iterative_lookup_hops += each.count * all_hops;
        work.iterative_chain += each.count * uint64_t(farthest + 2);
        work.chain = std::max<uint64_t>(work.chain, uint64_t(longest) + 1 + hops(publisher, place_of(0)));
    }
}

// States that a visit has reached at a path, without their //-children, which are at the same peer.
void PathReplay::expand(uint32_t path, const std::vector<uint32_t>& states, uint32_t steps, const Arrival& from) {
    std::vector<uint32_t> reached;
    for (uint32_t child = paths_[path].first; child != none; child = paths_[child].next) {
        const NameLabels& labels = classes_[paths_[child].labels];
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

void PathReplay::send(const Arrival& from, uint32_t to, uint32_t path) {
    uint32_t far = hops(peer_of(from.state), place_of(to));
    ++sent_[path].messages;
    sent_[path].hops += far;
    received_[to] += paths_[path].count;
    if (waiting_[path].empty()) touched_.push_back(path);
    waiting_[path].push_back({to, from.chain + 1 + far});
}

}  // namespace treecast
