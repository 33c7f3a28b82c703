// A document that Python holds: read once, and used wherever bytes would be.
#pragma once

#include "bindings/bindings.hpp"
#include "document/kept.hpp"
#include "render/scopes.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace treecast {

// It never changes, so views of its columns stay valid, and any number of threads may use it.
class HeldDocument {
public:
    // Reads bytes, which it holds.
    HeldDocument(nb::bytes data, const Limits& limits, const EntityTexts* entities) : data_(std::move(data)) {
        LentReader reader(limits, entities ? entities->texts : nullptr);
        std::optional<Failure> failed;
        {
            Interruptible unlocked;
            try {
                kept_ = reader->read(data_view());
            } catch (const Failure& failure) {
                failed = failure;
            }
        }
        reader.keep();
        if (failed) throw *failed;
    }
    // Read already: from these bytes, or without bytes of its own.
    HeldDocument(nb::object data, std::unique_ptr<KeptDocument> kept) : data_(std::move(data)), kept_(std::move(kept)) {}

    const Document& operator*() const { return kept_->document(); }
    const Document* operator->() const { return &kept_->document(); }
    // The bytes as given. A document that came in binary has none until somebody asks for them.
    nb::bytes data() const {
        std::string_view original = kept_->document().original;
        if (!data_.is_valid()) data_ = nb::bytes(original.data(), original.size());
        return nb::borrow<nb::bytes>(data_);
    }
    size_t checked(size_t element) const {
        if (element >= kept_->document().elements()) throw nb::index_error("no such element");
        return element;
    }
    // Built for the first slice and kept, so that slicing every record of a document takes linear time. Needs the GIL.
    Scopes& scopes() const {
        if (!scopes_) scopes_.emplace().begin(kept_->document());
        return *scopes_;
    }

private:
    std::string_view data_view() const {
        return bytes_view(data_.ptr());
    }
    mutable nb::object data_;
    std::unique_ptr<KeptDocument> kept_;
    mutable std::optional<Scopes> scopes_;
};

// For lists, in which nanobind takes None for a pointer to nothing.
inline void demand_documents(const std::vector<const HeldDocument*>& documents) {
    for (const HeldDocument* document : documents)
        if (!document) throw nb::type_error("a document is no None");
}

}  // namespace treecast
