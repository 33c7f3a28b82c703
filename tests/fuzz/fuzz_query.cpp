// Invariant: any bytes are a Query that prints and parses again to an equal one, or a Failure that says where and why.
// The same holds with the Query of the run before refilled, and the normal form of the two is the same.
#include "base/failure.hpp"
#include "query/query.hpp"

#include <cstdint>
#include <cstdlib>

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

bool same_paths(const std::vector<treecast::Path>& a, const std::vector<treecast::Path>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
        if (a[i].size() != b[i].size()) return false;
        for (size_t j = 0; j < a[i].size(); ++j) {
            const treecast::PathStep &x = a[i][j], &y = b[i][j];
            bool same = x.descendant == y.descendant && x.kind == y.kind && x.test == y.test && x.uri == y.uri;
            if (!same || x.local != y.local) return false;
        }
    }
    return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace treecast;
    static const Bindings bindings = {{"p", "urn:p"}, {"", "urn:d"}};
    static Query reused;
    std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        parse_query(text, bindings, reused);
    } catch (const Failure& failure) {
        require(failure.family == Family::query && failure.code.size() == 5 && !failure.message.empty());
        require(failure.position <= size && failure.length <= size - failure.position);
        require(failure.limit == (failure.code[2] == '3'));
        return 0;
    }
    std::string canonical = reused.text();
    Query again;
    parse_query(canonical, bindings, again);
    require(again.text() == canonical && again.key() == reused.key() && again.linear() == reused.linear());
    std::vector<Path> paths, paths_again;
    reused.linear_paths(paths);
    again.linear_paths(paths_again);
    require(same_paths(paths, paths_again));
    require(reused.linear() || paths.empty());
    return 0;
}
