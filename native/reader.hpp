// bytes -> Document. One Reader per thread; its buffers and names are reused from document to document.
#pragma once

#include "document.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace treecast {

// Replacement texts for entity references that the document does not declare (nothing it declares is ever read).
using Entities = std::unordered_map<std::string, std::string>;

class Reader {
public:
    explicit Reader(Limits limits = {}, std::shared_ptr<const Entities> entities = nullptr);
    ~Reader();
    // The bytes must outlive the Document. Throws Failure (Family::document) and leaves no half-read document behind.
    const Document& read(std::string_view bytes);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace treecast
