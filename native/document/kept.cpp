// Documents that stay, and the pool of readers that read them.
#include "document/kept.hpp"

#include "base/fork.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace treecast {

namespace {

constexpr size_t readers_max = 16;       // that wait for the next document

struct ReaderPool {
    MomentaryMutex mutex;
    std::vector<std::unique_ptr<KeptReader>> readers;
    ReaderPool() { readers.reserve(readers_max); }
};

// Never destroyed: a thread may still read when the process ends.
ReaderPool& reader_pool() {
    static auto* pool = new ReaderPool;
    return *pool;
}

// The same names under the same numbers.
std::shared_ptr<const NameTable> copy_of(const NameTable& names) {
    auto copy = std::make_shared<NameTable>();
    for (uint32_t id = 0; id < names.uris(); ++id) copy->intern_uri(names.uri_text(id));
    for (uint32_t id = 0; id < names.size(); ++id) copy->intern(names.uri_id(id), names.local(id));
    return copy;
}

// Whether a table has all names of a document, of which it knows those up to some number.
bool has_names_of(const NameTable& table, const Document& document) {
    auto within = [&](const Column<uint32_t>& names) {
        return std::all_of(names.data(), names.data() + names.size(), [&](uint32_t name) { return name < table.size(); });
    };
    return within(document.name) && within(document.attribute_name) &&
           std::all_of(document.declarations.data(), document.declarations.data() + document.declarations.size(),
                       [&](const NamespaceDeclaration& declared) { return declared.uri < table.uris(); });
}

// A table with nothing but the names of one document, which get new numbers.
std::shared_ptr<const NameTable> own_table(const NameTable& names, Document& document) {
    auto own = std::make_shared<NameTable>();
    for (Column<uint32_t>* column : {&document.name, &document.attribute_name})
        for (size_t i = 0; i < column->size(); ++i)
            (*column)[i] = own->intern(names.uri((*column)[i]), names.local((*column)[i]));
    for (size_t i = 0; i < document.declarations.size(); ++i)
        document.declarations[i].uri = own->intern_uri(names.uri_text(document.declarations[i].uri));
    return own;
}

}  // namespace

std::unique_ptr<KeptDocument> KeptReader::keep(const Document& read, bool copies_text) {
    auto kept = std::make_unique<KeptDocument>();
    kept->document_.copy_from(read, copies_text, kept->memory_);
    freeze_names(*kept);
    kept->document_.names = kept->names_.get();
    return kept;
}

void KeptReader::freeze_names(KeptDocument& kept) {
    const NameTable& all = reader_.names();
    if (generation_ != all.generation()) {
        names_ = nullptr;
        generation_ = all.generation();
    }
    credit_ += kept.document_.elements() + kept.document_.attribute_name.size() + kept.document_.declarations.size();
    bool is_known = names_ && ((names_->size() == all.size() && names_->uris() == all.uris()) || has_names_of(*names_, kept.document_));
    if (!is_known && credit_ >= all.size() + all.uris()) {
        names_ = copy_of(all);
        credit_ = 0;
        is_known = true;
    }
    kept.names_ = is_known ? names_ : own_table(all, kept.document_);
}

LentReader::LentReader(const Limits& limits, std::shared_ptr<const Entities> entities) {
    ReaderPool& pool = reader_pool();
    {
        std::lock_guard lock(pool.mutex);
        auto fits = [&](const auto& reader) { return reader->limits().name_bytes_max == limits.name_bytes_max; };
        auto found = std::find_if(pool.readers.rbegin(), pool.readers.rend(), fits);
        if (found != pool.readers.rend()) {
            reader_ = std::move(*found);
            pool.readers.erase(std::next(found).base());
        }
    }
    if (!reader_) reader_ = std::make_unique<KeptReader>(limits);
    reader_->use(limits, std::move(entities));
}

LentReader::~LentReader() {
    if (!kept_) return;
    reader_->use(reader_->limits(), nullptr);
    ReaderPool& pool = reader_pool();
    std::lock_guard lock(pool.mutex);
    if (pool.readers.size() < readers_max) pool.readers.push_back(std::move(reader_));
}

}  // namespace treecast
