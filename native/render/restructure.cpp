// Applies lists of steps. restructure.hpp has the theory: lists that begin with the same steps share the trees these leave.
//
// A state is what some first steps of a list leave. States form a tree of their own, keyed by the state before and the step.
// Each state is stored as bytes and read again by the next step, so every step uses the ordinary reader and evaluator.
#include "render/restructure.hpp"

#include "base/seeded_hash.hpp"
#include "document/reader.hpp"
#include "render/copy.hpp"
#include "render/restructure_step.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <string_view>
#include <vector>

namespace treecast {

namespace {

constexpr size_t states_max = 1u << 16;        // that are remembered, with or without their bytes
constexpr size_t room_bytes = 256;             // for what a step puts in

// What was read once is read again after every step, with a little more in its tags. The limits were checked before.
Limits no_limits() {
    Limits limits;
    limits.document_bytes_max = document_bytes_most;
    limits.depth_max = depth_most;
    limits.attributes_max = limits.attribute_bytes_max = limits.names_max = std::numeric_limits<uint32_t>::max();
    limits.name_bytes_max = 1u << 24;
    return limits;
}

// The trees that some first steps of a list leave.
struct State {
    std::string bytes;
    std::vector<uint32_t> ends;                // of each tree in `bytes`; those that are gone are not among them
    uint32_t same_as = none;                   // State: a step that found nothing leaves no bytes of its own
    bool whole = false;                        // the root of the document as it is: no bytes either
    bool made = false;
};

struct ReadTree {                              // a tree as a Document, with its evaluator
    Reader reader{no_limits()};
    Evaluator evaluator;
    const Document* document = nullptr;
    uint32_t state = none;                     // whose only tree it is
    uint64_t used = 0;
};

void append_part(std::string_view text, std::string& key) {
    key.append(std::to_string(text.size())) += ':';
    key += text;
}

}  // namespace

struct Restructurer::Impl {
    const bool share;
    const uint64_t kept_bytes_max;
    const Document* document = nullptr;
    Evaluator* evaluator = nullptr;            // of the document
    std::deque<State> states;                  // trees that have been read point into their bytes
    TextMap<uint32_t> state_of;      // by the state before and the step
    uint64_t kept_bytes = 0;
    std::array<ReadTree, 4> trees;             // the first: trees of which a state has several
    uint64_t clock = 0, steps_applied = 0;
    Scopes scopes;
    bool scopes_ready = false;
    RestructureStep step;
    std::vector<Evaluator::Item> items;
    std::vector<uint32_t> order;
    std::string key;

    Impl(bool share_, uint64_t kept_bytes_max_) : share(share_), kept_bytes_max(kept_bytes_max_) {}

    // States refer to one document, and to each other by number; they are dropped together.
    void forget() {
        states.clear();
        state_of.clear();
        kept_bytes = 0;
        for (ReadTree& tree : trees) tree.state = none;
    }

    // The key holds the state before, so equal steps after different beginnings stay apart.
    uint32_t state_after(uint32_t before) {
        key.insert(0, std::to_string(before) + ' ');
        auto [found, added] = state_of.try_emplace(key, static_cast<uint32_t>(states.size()));
        if (added) states.emplace_back();
        return found->second;
    }

    // The states of a list: before its first step, and after each step.
    void find_states(const Transformation& list, std::vector<uint32_t>& out) {
        key.clear();
        if (list.from() != no_entry) key = list.paths_key(list.from(), order);
        out.assign(1, state_after(none));
        for (const Change& change : list.changes()) {
            key.assign(1, "dkru"[static_cast<int>(change.kind)]);
            const Name& name = change.name;
            if (change.kind == ChangeKind::rename)
                for (Slice part : {name.prefix, name.local, name.uri}) append_part(list.view(part), key);
            key += list.paths_key(change.paths, order);
            out.push_back(state_after(out.back()));
        }
    }

    // A step that found nothing leaves the same trees, so its state refers to the one before.
    uint32_t resolved(uint32_t state) const {
        while (states[state].same_as != none) state = states[state].same_as;
        return state;
    }

    // Gives bytes back if there are too many. The current list does not need `state` any more.
    void release(uint32_t state) {
        if (kept_bytes <= kept_bytes_max) return;
        kept_bytes -= states[state].bytes.size();
        states[state] = State();
        for (ReadTree& tree : trees)
            if (tree.state == state) tree.state = none;
    }

    void select(Evaluator& judge, const Transformation& list, uint32_t paths) {
        judge.enter(list.query());
        judge.prepare(paths);
        // Trees made on the way count as work of the same subscription.
        uint64_t before = judge.looked_at;
        if (&judge != evaluator) judge.allow(evaluator->left());
        judge.select(paths, {}, items);
        if (&judge != evaluator) evaluator->spend(judge.looked_at - before);
    }

    // The trees that a list starts from. The whole document, the usual case, is not copied.
    bool start(const Transformation& list, State& state, uint64_t size_max) {
        items.assign(1, {StepKind::element, 0});
        if (list.from() != no_entry) select(*evaluator, list, list.from());
        if (items.size() == 1 && items[0] == Evaluator::Item{StepKind::element, 0} && !document->references.size()) {
            state.whole = true;
            return true;
        }
        if (!scopes_ready) scopes.begin(*document);
        scopes_ready = true;
        for (Evaluator::Item item : items) {
            if (item.kind != StepKind::element) continue;
            copy_element(*document, scopes, item.index, NamespacesInForce(), state.bytes);
            if (state.bytes.size() > size_max) return false;
            state.ends.push_back(static_cast<uint32_t>(state.bytes.size()));
        }
        return true;
    }

    // Keeps the trees that were read last; other lists probably continue from the same state.
    ReadTree& read(uint32_t state, size_t number) {
        const State& found = states[state];
        ReadTree* tree = &trees[0];
        if (found.ends.size() == 1) {
            for (ReadTree& other : trees) {
                if (&other == &trees[0]) continue;
                if (tree == &trees[0] || other.used < tree->used) tree = &other;
                if (other.state != state) continue;
                other.used = ++clock;
                return other;
            }
            tree->used = ++clock;
        }
        uint32_t begin = number ? found.ends[number - 1] : 0;
        tree->state = none;
        tree->document = &tree->reader.read(std::string_view(found.bytes).substr(begin, found.ends[number] - begin));
        tree->evaluator.begin(*tree->document);
        if (found.ends.size() == 1) tree->state = state;
        return *tree;
    }

    // The untouched root is not copied; it is read from the document.
    std::string_view bytes_of(const State& state) const {
        if (!state.whole) return state.bytes;
        return document->source.substr(document->start[0], document->end[0] - document->start[0]);
    }

    // Fills the state `to` with what a step leaves of the state `from`. Returns false if that is more than size_max bytes.
    bool advance(const Transformation& list, const Change& change, uint32_t from, uint32_t to, uint64_t size_max) {
        ++steps_applied;
        bool whole = states[from].whole;
        size_t count = whole ? 1 : states[from].ends.size();
        State next;
        if (change.kind != ChangeKind::keep) next.bytes.reserve(bytes_of(states[from]).size() + room_bytes);
        for (size_t number = 0; number < count; ++number) {
            ReadTree* tree = whole ? nullptr : &read(from, number);
            const Document& read = whole ? *document : *tree->document;
            select(whole ? *evaluator : tree->evaluator, list, change.paths);
            if (count == 1 && items.empty() && change.kind != ChangeKind::keep) {
                states[to].same_as = from;
                states[to].made = true;
                return true;
            }
            size_t before = next.bytes.size();
            if (!step.apply(list, change, read, items, size_max, next.bytes)) return false;
            if (next.bytes.size() > before) next.ends.push_back(static_cast<uint32_t>(next.bytes.size()));
        }
        next.made = true;
        if (next.bytes.capacity() / 2 > next.bytes.size()) next.bytes.shrink_to_fit();
        kept_bytes += next.bytes.size();
        states[to] = std::move(next);
        return true;
    }

    bool restructure(const Transformation& list, uint64_t bytes_max, Bytes& out) {
        if (!share || kept_bytes > kept_bytes_max || states.size() > states_max) forget();
        std::vector<uint32_t> line;
        find_states(list, line);
        uint64_t size_max = std::min(bytes_max, document_bytes_most) + document->source.size();
        size_max = std::min(size_max, document_bytes_most);
        // Start after the longest beginning that another list has already computed.
        size_t done = line.size();
        while (done && !states[resolved(line[done - 1])].made) --done;
        if (!done) {
            State first;
            if (!start(list, first, size_max)) return false;
            first.made = true;
            kept_bytes += first.bytes.size();
            states[line[0]] = std::move(first);
            done = 1;
        }
        for (; done < line.size(); ++done) {
            uint32_t from = resolved(line[done - 1]);
            if (!advance(list, list.changes()[done - 1], from, line[done], size_max)) return false;
            if (states[line[done]].same_as == none) release(from);
        }
        std::string_view bytes = bytes_of(states[resolved(line.back())]);
        if (bytes.size() > bytes_max) return false;
        out += bytes;
        return true;
    }
};

Restructurer::Restructurer(bool share, uint64_t kept_bytes_max)
    : impl_(std::make_unique<Impl>(share, kept_bytes_max)) {}
Restructurer::~Restructurer() = default;
Restructurer::Restructurer(Restructurer&&) noexcept = default;
Restructurer& Restructurer::operator=(Restructurer&&) noexcept = default;

void Restructurer::begin(const Document& document) {
    impl_->forget();
    impl_->document = &document;
    impl_->scopes_ready = false;
}

bool Restructurer::restructure(const Transformation& list, Evaluator& evaluator, uint64_t bytes_max, Bytes& out) {
    impl_->evaluator = &evaluator;
    return impl_->restructure(list, bytes_max, out);
}

uint64_t Restructurer::steps_applied() const { return impl_->steps_applied; }

}  // namespace treecast
