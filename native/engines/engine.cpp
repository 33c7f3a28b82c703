// The table of engines by name. A new engine is one row here; everything else goes through the interface.
#include "engines/engine.hpp"

#include "engines/hybrid.hpp"
#include "engines/lazydfa.hpp"
#include "engines/published.hpp"
#include "engines/xfilter.hpp"
#include "engines/xtrie.hpp"
#include "engines/yfilter.hpp"

#include <stdexcept>
#include <string>

namespace treecast {

namespace {

struct Member {
    std::string_view name;
    std::unique_ptr<Engine> (*make)(const HashSeeds& seeds);
};

// Only our engine takes seeds; those of the papers use the seeds of the process.
std::unique_ptr<Engine> make_lazydfa(const HashSeeds& seeds) { return std::make_unique<LazyDfaEngine>(seeds); }

template <std::unique_ptr<PublishedFilter> (*make)()>
std::unique_ptr<Engine> make_published(const HashSeeds&) {
    return std::make_unique<PublishedEngine>(make);
}

constexpr Member family[] = {
    {"auto", make_lazydfa},
    {"lazydfa", make_lazydfa},
    {"xfilter", make_published<make_xfilter>},
    {"hybrid", make_published<make_hybrid>},
    {"yfilter", make_published<make_yfilter>},
    {"yfilter-inline", make_published<make_yfilter_inline>},
    {"xtrie", make_published<make_xtrie>},
    {"xtrie-single-path", make_published<make_xtrie_single_path>},
};

}  // namespace

std::unique_ptr<Engine> make_engine(std::string_view name, const HashSeeds& seeds) {
    for (const Member& member : family)
        if (member.name == name) return member.make(seeds);
    throw std::invalid_argument("no engine is called " + std::string(name));
}

std::vector<std::string_view> engine_names() {
    std::vector<std::string_view> names;
    for (const Member& member : family) names.push_back(member.name);
    return names;
}

uint64_t EngineRun::route(const View& view, const Document& document, const RouteQuestion& question, uint64_t found) {
    if (question.is_answered(found)) return found;
    Output<int32_t> slots;
    std::vector<Undecided> undecided;
    match(view, document, false, slots, undecided);
    for (size_t i = 0; i < slots.size(); ++i) found |= question.targets_of(static_cast<uint32_t>(slots.data()[i]), document, found);
    for (const Undecided& one : undecided) found |= question.targets_of(one.slot, document, found);
    return found;
}

}  // namespace treecast
