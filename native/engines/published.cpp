#include "engines/published.hpp"

#include "base/failure.hpp"
#include "engines/hybrid.hpp"
#include "engines/xfilter.hpp"
#include "engines/xtrie.hpp"
#include "engines/yfilter.hpp"

namespace treecast {

namespace {

struct Named {
    std::string_view name;
    std::unique_ptr<PublishedEngine> (*make)();
};

constexpr Named engines[] = {
    {"xfilter", make_xfilter},
    {"hybrid", make_hybrid},
    {"yfilter", make_yfilter},
    {"yfilter-inline", make_yfilter_inline},
    {"xtrie", make_xtrie},
    {"xtrie-single-path", make_xtrie_single_path},
};

}  // namespace

std::unique_ptr<PublishedEngine> make_published(std::string_view name) {
    for (const Named& engine : engines)
        if (engine.name == name) return engine.make();
    return nullptr;
}

std::vector<std::string_view> published_names() {
    std::vector<std::string_view> names;
    for (const Named& engine : engines) names.push_back(engine.name);
    return names;
}

void refuse_published(std::string_view engine, std::string_view what, Slice where) {
    std::string message = "the engine '";
    message.append(engine).append("' cannot match ").append(what);
    Failure failure(Family::query, "TC150", std::move(message), where.begin);
    failure.length = where.size;
    failure.hint = "use engine=\"auto\", which matches the whole language";
    throw failure;
}

void ResolvedNames::begin(const Document& document, const LabelTable& table) {
    if (table_ != &table || names_ != document.names || generation_ != document.names->generation()) {
        table_ = &table;
        names_ = document.names;
        generation_ = names_->generation();
        labels_.clear();
    }
    if (labels_.size() < names_->size()) labels_.resize(names_->size());
    table_changes_ = table.changes();
}

}  // namespace treecast
