// Patterns that are one path with one value at its end, such as `/feed//item[@code="C1"]`: found top-down, from the path to the value.
//
// Theory of operation. A TreeMachine works bottom-up: a common value holds in many elements, and what follows from it is carried up to
// the root, for every path that ends in it, although few of them lead to that element. Here the paths come first. They are a
// Machine of their own, and each distinct one is a bit. At every element, its lazily built form (Lazy) says which paths end there.
// The values of the element's attributes are looked up, each once. A value has a directory: from 64 neighbouring paths to the
// patterns that ask for it at the end of one of them. So a pattern costs something only where both its halves hold.
//
// A TreeMachine has at most one of these, for those of its patterns that have this form, and nobody else sees the difference.
#pragma once

#include "base/answer_bits.hpp"
#include "base/directory.hpp"
#include "machines/label.hpp"
#include "machines/lazy.hpp"
#include "machines/machine.hpp"
#include "machines/values.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace treecast {

// One path, an attribute, and the text or number that it equals.
struct ValuePath {
    std::string_view path;                // as the bytes of the pattern have it: equal for equal paths
    uint32_t attribute;                   // its label
    ValueTest test;
    std::string_view value;
};

// Says of patterns whether they have that form.
class ValuePathReader {
public:
    explicit ValuePathReader(const LabelTable& table) : table_(table) {}
    std::optional<ValuePath> read(std::string_view pattern);
    const std::vector<uint32_t>& labels() const { return labels_; }      // of the path that was read last, as a Machine takes them

private:
    enum class Kind : uint8_t { unknown, element, attribute, other };
    Kind kind(uint32_t label);
    const LabelTable& table_;
    std::vector<Kind> kinds_;             // by label
    std::vector<uint32_t> labels_;
};

class ValuePaths {
public:
    // PERF: bench/shapes.py. With fewer, a walk of its own does not pay.
    static constexpr size_t patterns_min = 16;
    struct Record {                       // 64 neighbouring paths, for one value
        uint64_t paths = 0;               // those that some pattern ends with this value
        uint32_t accept = 0;              // the accept id of the first of these patterns
        uint32_t unused = 0;              // where the compiler would leave a gap, which is saved with the rest
    };

    ValuePaths() = default;
    // patterns[i] gets the accept id accept_of[numbers[i]], from `first` on. All must be distinct.
    void build(std::span<const std::string_view> patterns, std::span<const uint32_t> numbers, const LabelTable& table, uint32_t first,
               std::vector<uint32_t>& accept_of);
    bool empty() const { return directories_.size() == 0; }
    const std::shared_ptr<Machine>& machine() const { return machine_; }
    const Values& values() const { return values_; }
    const Directories<Record>& directories() const { return directories_; }          // by test of values()
    uint64_t bytes() const { return machine_->bytes() + values_.bytes() + directories_.bytes(); }
    template <class Visit>
    void parts(Visit&& visit) { machine_->parts(visit), values_.parts(visit), directories_.arrays(visit); }

private:
    std::shared_ptr<Machine> machine_ = std::make_shared<Machine>();       // of the paths
    Values values_;
    Directories<Record> directories_;
};

// One thread's run, kept from document to document.
class ValuePathsRun final : private ElementVisitor {
public:
    ValuePathsRun(const ValuePaths& paths, LazyCaches& caches) : paths_(paths), lazy_(caches.of(paths.machine())) {}
    void forget_names();
    void set_bytes_max(uint64_t bytes) { lazy_.set_bytes_max(bytes); }
    void rest() { lazy_.rest(); }
    uint64_t looked_at() const { return looked_at_; }       // directories
    void run(const Document& document, NameResolver& names, AnswerBits& out);

private:
    struct Groups {                                         // of an attribute's name: those of its labels that have values
        uint32_t count = none, group[4] = {};
        bool numbers = false;
    };
    const Groups& groups(uint32_t name);
    void visit(uint32_t element, WordsView accepts) override;
    void finish() override;
    void accept(uint32_t test, WordsView paths);
    template <class Bits>
    void accept_with(uint32_t test, WordsView paths);

    struct LookUp {                                         // of a value, at the end of these paths
        Values::Search search;
        WordsView paths;
    };
    static constexpr size_t look_ups_max = 16;              // at a time

    const ValuePaths& paths_;
    Lazy lazy_;
    std::vector<Groups> groups_;                            // by name
    std::vector<uint64_t> scratch_;
    uint64_t looked_at_ = 0;
    // Of the run in progress.
    const Document* document_ = nullptr;
    NameResolver* names_ = nullptr;
    AnswerBits* out_ = nullptr;
    LookUp look_ups_[look_ups_max];
    size_t look_up_count_ = 0;
    bool is_hard_ = false;                                  // which instructions there are
};

}  // namespace treecast
