// Invariant: the shared machines, the engines of the papers and the direct evaluator agree. The input is queries, one a line,
// an empty line, and a document. All queries that parse are added one by one, some removed again; what matches must be what the
// evaluator says, query by query, with a cache, without one, and after a second look at the same document. An engine of the
// papers may refuse queries; of the others it says the same. The size of the input decides which: all at once are slow.
#include "base/failure.hpp"
#include "evaluate/evaluate.hpp"
#include "index/index.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace treecast;

void require(bool holds) {
    if (!holds) std::abort();
}

std::vector<std::string> matched(Index& index, std::string_view document) {
    Output<int32_t> slots;
    std::vector<UndecidedMatch> undecided;
    auto view = index.match(GivenDocument{document, nullptr}, slots, undecided);
    require(undecided.empty());
    std::vector<std::string> ids;
    for (size_t i = 0; i < slots.size(); ++i) ids.emplace_back(view->id(slots.data()[i]));
    return ids;
}

bool add(Index& index, std::string_view id, std::string_view query) {
    static const Settings settings;
    Item item{id, query, &settings};
    std::vector<Refusal> refused;
    index.store().add({&item, 1}, refused);
    return refused.empty();
}

// An engine of the papers, and what it should say.
struct Published {
    Index index;
    std::vector<std::string> expected;
    explicit Published(std::string_view name) : index(Limits{}, nullptr, 0, name) {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    size_t split = text.find("\n\n");
    if (split == text.npos) return 0;
    std::string_view queries = text.substr(0, split), bytes = text.substr(split + 2);
    Reader reader;
    const Document* document;
    try {
        document = &reader.read(bytes);
    } catch (const Failure&) {
        return 0;
    }
    Limits limits;
    limits.work_per_item_max = none;       // the evaluator has none either
    Index cached(limits, nullptr, 1 << 20), plain(limits, nullptr, 0);
    std::vector<std::string_view> names;
    for (std::string_view name : engine_names())
        if (name != "auto" && name != "lazydfa") names.push_back(name);
    Published published(names[size % names.size()]);
    Evaluator evaluator;
    evaluator.begin(*document);
    std::vector<std::string> expected;
    Query query;
    for (size_t number = 0, at = 0; at <= queries.size() && number < 64; ++number) {
        size_t end = std::min(queries.find('\n', at), queries.size());
        std::string_view line = queries.substr(at, end - at);
        at = end + 1;
        std::string id = std::to_string(number);
        bool added = add(cached, id, line);
        require(add(plain, id, line) == added);
        const bool takes = add(published.index, id, line);
        require(added || !takes);
        if (!added) continue;
        if (number % 5 == 4) {
            cached.store().remove(id);
            plain.store().remove(id);
            if (takes) published.index.store().remove(id);
            continue;
        }
        parse_query(line, {}, query);
        if (!evaluator.satisfies(query, false)) continue;
        expected.push_back(id);
        if (takes) published.expected.push_back(id);
    }
    require(matched(cached, bytes) == expected);
    require(matched(cached, bytes) == expected);
    require(matched(plain, bytes) == expected);
    require(matched(published.index, bytes) == published.expected);
    require(matched(published.index, bytes) == published.expected);
    return 0;
}
