// Builds the paths and the directories of their values, and runs them over documents. value_paths.hpp has the theory.
#include "machines/value_paths.hpp"

#include "base/interrupt.hpp"
#include "base/pext.hpp"
#include "base/seeded_hash.hpp"
#include "base/varint.hpp"
#include "machines/machine_builder.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace treecast {

namespace {

constexpr size_t listed_values_max = 8;      // a directory of so few words is a list

}  // namespace

ValuePathReader::Kind ValuePathReader::kind(uint32_t label) {
    if (label >= kinds_.size()) kinds_.resize(label + 1 + label / 2, Kind::unknown);
    Kind& known = kinds_[label];
    if (known != Kind::unknown) return known;
    if (label == label_element_any) return known = Kind::element;
    if (label == label_attribute_any) return known = Kind::attribute;
    if (label < label_first) return known = Kind::other;
    PathStep step = table_.step_of(label);
    if (step.place || !step.program.empty()) return known = Kind::other;             // only tree machines know places and derivations
    return known = step.kind == StepKind::element ? Kind::element : step.kind == StepKind::attribute ? Kind::attribute : Kind::other;
}

// From the document down, one requirement after the other.
std::optional<ValuePath> ValuePathReader::read(std::string_view pattern) {
    labels_.clear();
    const char* at = pattern.data();
    if (take_varint(at) != label_root) return {};
    for (;;) {
        if (take_varint(at) != 1) return {};                // requirements
        const char* end = at;
        auto how = static_cast<uint8_t>(*at++);
        if (how & negated_bit || static_cast<Reach>(how) == Reach::value) return {};
        uint32_t label = take_varint(at);
        if (kind(label) == Kind::element) {
            if (static_cast<Reach>(how) == Reach::descend) labels_.push_back(label_descend);
            labels_.push_back(label);
            continue;
        }
        if (kind(label) != Kind::attribute || static_cast<Reach>(how) != Reach::child || labels_.empty()) return {};
        if (take_varint(at) != 1 || static_cast<uint8_t>(*at++) != static_cast<uint8_t>(Reach::value)) return {};
        auto test = static_cast<ValueTest>(*at++);
        if (test != ValueTest::equal_text && test != ValueTest::equal_number) return {};
        uint32_t size = take_varint(at);
        return ValuePath{pattern.substr(0, static_cast<size_t>(end - pattern.data())), label, test, {at, size}};
    }
}

void ValuePaths::build(std::span<const std::string_view> patterns, std::span<const uint32_t> numbers, const LabelTable& table,
                       uint32_t first, std::vector<uint32_t>& accept_of) {
    struct Item {
        ValuePath about;
        uint32_t path, number;
    };
    std::vector<Item> items;
    items.reserve(patterns.size());
    std::vector<uint32_t> labels;
    std::vector<size_t> ends;
    TextViewMap<uint32_t> known;
    ValuePathReader reader(table);
    InterruptTicks ticks(300);
    for (size_t i = 0; i < patterns.size(); ++i) {
        ticks.tick();
        ValuePath about = *reader.read(patterns[i]);
        auto [place, is_new] = known.try_emplace(about.path, static_cast<uint32_t>(ends.size()));
        if (is_new) {
            labels.insert(labels.end(), reader.labels().begin(), reader.labels().end());
            ends.push_back(labels.size());
        }
        items.push_back({about, place->second, numbers[i]});
    }
    std::vector<Labels> paths;
    for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) paths.emplace_back(labels.data() + begin, ends[i] - begin);
    std::vector<uint32_t> bit_of;
    machine_ = build_machine(paths, table, bit_of);
    for (Item& item : items) item.path = bit_of[item.path];
    auto condition = [](const Item& i) { return std::tie(i.about.attribute, i.about.test, i.about.value); };
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
        ticks.tick();
        if (condition(a) != condition(b)) return condition(a) < condition(b);
        return a.path < b.path;
    });
    std::vector<Values::Condition> conditions;
    const uint32_t words = (machine_->accepts() + 63) / 64;
    for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
        conditions.push_back({items[begin].about.attribute, items[begin].about.test, items[begin].about.value});
        directories_.open();
        for (; end < items.size() && condition(items[end]) == condition(items[begin]); ++end) {
            Record& record = directories_.add(items[end].path >> 6);
            if (!record.paths) record.accept = first + static_cast<uint32_t>(end);
            record.paths |= 1ull << (items[end].path & 63);
            accept_of[items[end].number] = first + static_cast<uint32_t>(end);
        }
        directories_.close(words, listed_values_max);
    }
    directories_.shrink();
    values_.build(conditions);
}

// The reader's numbers of names have changed their meaning.
void ValuePathsRun::forget_names() {
    groups_.clear();
    lazy_.forget_names();
}

const ValuePathsRun::Groups& ValuePathsRun::groups(uint32_t name) {
    if (name >= groups_.size()) groups_.resize(name + 1 + name / 2);
    Groups& found = groups_[name];
    if (found.count != none) return found;
    found.count = 0;
    auto add = [&](uint32_t label) {
        uint32_t group = label == none ? 0 : paths_.values().group_of(label);
        if (!group) return;
        found.group[found.count++] = group;
        found.numbers |= paths_.values().need(group).numbers;
    };
    add(label_attribute_any);
    for (uint32_t label : names_->labels(name).attribute) add(label);
    return found;
}

void ValuePathsRun::run(const Document& document, NameResolver& names, AnswerBits& out) {
    if (document.attribute_name.size() == 0) return;
    document_ = &document;
    names_ = &names;
    out_ = &out;
    look_up_count_ = 0;
    is_hard_ = simd_level() >= Simd::avx2;
    lazy_.visit_elements(document, names, *this);
}

void ValuePathsRun::visit(uint32_t element, WordsView accepts) {
    const Values& values = paths_.values();
    for (size_t a = document_->attribute_begin[element], end = document_->attribute_end(element); a < end; ++a) {
        const Groups& about = groups(document_->attribute_name[a]);
        if (!about.count) continue;
        const std::string_view value = document_->value(document_->attribute_value[a]);
        for (uint32_t g = 0; g < about.count; ++g) {
            if (look_up_count_ == look_ups_max) finish();
            LookUp& look_up = look_ups_[look_up_count_];
            look_up = {{about.group[g], none, 0, value}, accepts};
            look_up_count_ += values.begin(look_up.search);
        }
        if (!about.numbers) continue;
        const double number = to_number(value);
        for (uint32_t g = 0; g < about.count; ++g)
            if (uint32_t test = values.equal_number(about.group[g], number); test != none) accept(test, accepts);
    }
}

// PERF: bench/network_cpu.py. Each look-up is some loads that wait for each other, from memory that is in no cache. Those of several
// values wait together.
void ValuePathsRun::finish() {
    const Values& values = paths_.values();
    const auto& directories = paths_.directories();
    size_t count = 0;
    for (LookUp& look_up : std::span(look_ups_, look_up_count_)) {
        if (!values.narrow(look_up.search)) continue;
        directories.expect(look_up.search.test);
        look_ups_[count++] = look_up;
    }
    look_up_count_ = 0;
    const std::span<LookUp> left(look_ups_, count);
    for (const LookUp& look_up : left) values.approach(look_up.search);
    for (LookUp& look_up : left)
        if (values.finish(look_up.search)) directories.approach(look_up.search.test);
    for (const LookUp& look_up : left)
        if (look_up.search.test != none) accept(look_up.search.test, look_up.paths);
}

void ValuePathsRun::accept(uint32_t test, WordsView paths) {
#if TREECAST_X86
    if (is_hard_) return accept_with<HardBits>(test, paths);
#endif
    accept_with<SoftBits>(test, paths);
}

template <class Bits>
void ValuePathsRun::accept_with(uint32_t test, WordsView paths) {
    ++looked_at_;
    paths_.directories().template each<Bits>(test, paths, scratch_, [&](const ValuePaths::Record& record, uint64_t mask) {
        if (!(mask & record.paths)) return;
        out_->append(record.accept, Bits::pext(mask, record.paths));
    });
}

}  // namespace treecast
