// Transformations as text: canonical, and as keys in which equal meanings are equal bytes.
//
// Equal keys let subscribers share a result, so a key must contain everything that influences it, and nothing else.
#include "query/query_print.hpp"
#include "query/transformation.hpp"

#include <algorithm>

namespace treecast {

namespace {

// Canonical texts start paths at variables. Keys number variables by their first mention.
// So a shape has the same key whatever its variables are called.
class ShapePrinter : public QueryPrinter {
public:
    ShapePrinter(const Transformation& transformation, bool expanded, std::string& out, std::vector<uint32_t>* order)
        : QueryPrinter(transformation.query(), expanded, out), all_(transformation), order_(order) {}

    void shape(uint32_t index);
    void list();

private:
    bool start(const PathEntry& path) override;
    void variable(uint32_t number);
    void name(const Name& name);
    void clauses(uint32_t first);
    void element(const Shape& shape);
    void attribute(const Shape& shape);
    void content(uint32_t first, bool in_attribute);
    void characters(std::string_view text, bool in_attribute);
    void string_literal(std::string_view text);
    void call(const char* name, const Shape& shape);

    const Transformation& all_;
    std::vector<uint32_t>* order_;
};

bool ShapePrinter::start(const PathEntry& path) {
    if (all_.is_list()) return path.absolute;
    if (path.variable != no_entry) variable(path.variable);
    else if (path.absolute) out_ += "$msg";
    else return false;
    return true;
}

void ShapePrinter::variable(uint32_t number) {
    out_ += '$';
    if (!order_) {
        // Replacing a `let` may bring a variable next to another one of the same name. The later one gets its number appended.
        std::string_view name = all_.variable(number);
        out_ += name;
        for (uint32_t before = 0; before < number; ++before)
            if (all_.variable(before) == name) {
                (out_ += '-') += std::to_string(number);
                break;
            }
        return;
    }
    size_t at = static_cast<size_t>(std::find(order_->begin(), order_->end(), number) - order_->begin());
    if (at == order_->size()) order_->push_back(number);
    out_ += std::to_string(at);
}

void ShapePrinter::name(const Name& name) {
    if (expanded_) {
        ((((out_ += '{') += std::to_string(name.uri.size)) += ':') += all_.view(name.uri)) += '}';
        // The prefix is part of the result.
    }
    if (name.prefix.size) (out_ += all_.view(name.prefix)) += ':';
    out_ += all_.view(name.local);
}

// Writes an expression so that reading it again gives the same shape.
void ShapePrinter::shape(uint32_t index) {
    const Shape& shape = all_.shape(index);
    switch (shape.kind) {
        case ShapeKind::sequence:
            out_ += '(';
            all_.each_shape(shape.first, [&](uint32_t at, const Shape&) {
                if (at != shape.first) out_ += ", ";
                this->shape(at);
            });
            out_ += ')';
            break;
        case ShapeKind::flwr:
            clauses(shape.clauses);
            out_ += "return ";
            this->shape(shape.first);
            break;
        case ShapeKind::element: element(shape); break;
        case ShapeKind::attribute:
            out_ += "attribute ";
            name(shape.name);
            out_ += ' ';
            this->shape(shape.first);
            break;
        case ShapeKind::text: characters(all_.view(shape.text), false); break;
        case ShapeKind::enclosed:
            out_ += '{';
            if (shape.first != no_entry) this->shape(shape.first);
            out_ += '}';
            break;
        case ShapeKind::value: string_literal(all_.view(shape.text)); break;
        case ShapeKind::items: paths(shape.paths); break;
        case ShapeKind::term: term(shape.term); break;
        case ShapeKind::string_of: call("string(", shape); break;
        case ShapeKind::count: call("count(", shape); break;
        case ShapeKind::concat: call("concat(", shape); break;
        case ShapeKind::name_of: call("name(", shape); break;
        case ShapeKind::choice:
            out_ += "if (";
            condition(query_.expr(shape.condition));
            out_ += ") then ";
            this->shape(shape.first);
            out_ += " else ";
            this->shape(shape.other);
            break;
        case ShapeKind::comment: ((out_ += "<!--") += all_.view(shape.text)) += "-->"; break;
        case ShapeKind::instruction: ((out_ += "<?") += all_.view(shape.text)) += "?>"; break;
    }
}

void ShapePrinter::call(const char* opening, const Shape& shape) {
    out_ += opening;
    if (shape.paths != no_entry) paths(shape.paths);
    all_.each_shape(shape.first, [&](uint32_t at, const Shape&) {
        if (at != shape.first) out_ += ", ";
        this->shape(at);
    });
    out_ += ')';
}

// Keys of one `order by` are joined with commas; everything else is a clause of its own.
void ShapePrinter::clauses(uint32_t first) {
    bool ordering = false;
    all_.each_clause(first, [&](uint32_t, const Clause& clause) {
        switch (clause.kind) {
            case ClauseKind::each:
                out_ += "for ";
                if (clause.variable == no_entry) out_ += "$document";
                else variable(clause.variable);
                out_ += " in ";
                paths(clause.paths);
                break;
            case ClauseKind::where:
                out_ += "where ";
                condition(query_.expr(clause.condition));
                break;
            case ClauseKind::order:
                if (ordering) out_.back() = ',';
                out_ += ordering ? " " : "order by ";
                ordering = true;
                if (clause.counts || clause.strings) out_ += clause.counts ? "count(" : "string(";
                if (clause.term != no_term) term(clause.term);
                paths(clause.paths);
                if (clause.counts || clause.strings) out_ += ')';
                if (clause.descending) out_ += " descending";
                if (clause.empty_greatest) out_ += " empty greatest";
                break;
        }
        out_ += ' ';
    });
}

// Declarations come first: the parser refuses them after an expression.
void ShapePrinter::element(const Shape& shape) {
    out_ += '<';
    name(shape.name);
    for (uint32_t at = shape.declarations; at != no_entry; at = all_.declared(at).next) {
        const Declared& declared = all_.declared(at);
        out_ += " xmlns";
        if (declared.prefix.size) (out_ += ':') += all_.view(declared.prefix);
        out_ += "=\"";
        characters(all_.view(declared.uri), true);
        out_ += '"';
    }
    all_.each_shape(shape.other, [&](uint32_t, const Shape& attribute) {
        out_ += ' ';
        name(attribute.name);
        out_ += "=\"";
        content(attribute.first, true);
        out_ += '"';
    });
    if (shape.first == no_entry) {
        out_ += "/>";
        return;
    }
    out_ += '>';
    content(shape.first, false);
    out_ += "</";
    name(shape.name);
    out_ += '>';
}

void ShapePrinter::content(uint32_t first, bool in_attribute) {
    all_.each_shape(first, [&](uint32_t at, const Shape& part) {
        if (part.kind == ShapeKind::text) characters(all_.view(part.text), in_attribute);
        else shape(at);
    });
}

// Characters as they appear in a constructor. White space is written by number, or it would be dropped as layout.
void ShapePrinter::characters(std::string_view text, bool in_attribute) {
    for (size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        bool space = c == '\t' || c == '\n' || c == '\r' || (c == ' ' && !in_attribute && (i == 0 || i + 1 == text.size()));
        if (c == '&') out_ += "&amp;";
        else if (c == '<') out_ += "&lt;";
        else if (c == '"') out_ += "&quot;";
        else if (c == '{') out_ += "{{";
        else if (c == '}') out_ += "}}";
        else if (space) ((out_ += "&#") += std::to_string(static_cast<int>(c))) += ';';
        else out_ += c;
    }
}

// The quotes are always double, so one kind of escape is enough.
void ShapePrinter::string_literal(std::string_view text) {
    out_ += '"';
    for (char c : text) {
        if (c == '&') out_ += "&amp;";
        else if (c == '"') out_ += "&quot;";
        else if (c == '\r') out_ += "&#13;";
        else out_ += c;
    }
    out_ += '"';
}

// Steps in their order, which matters: each works on what the one before left.
void ShapePrinter::list() {
    if (all_.from() != no_entry) {
        out_ += "from ";
        paths(all_.from());
        out_ += ' ';
    }
    const char* const words[] = {"drop ", "keep ", "rename ", "unwrap "};
    for (const Change& change : all_.changes()) {
        if (&change != &all_.changes().front()) out_ += "; ";
        out_ += words[static_cast<int>(change.kind)];
        paths(change.paths);
        if (change.kind != ChangeKind::rename) continue;
        out_ += " to ";
        name(change.name);
    }
}

}  // namespace

// Braces mark a bare path, which would otherwise read as a query that is only matched.
std::string Transformation::text() const {
    std::string out;
    ShapePrinter printer(*this, false, out, nullptr);
    if (list_) printer.list();
    else printer.shape(root_);
    return is_transformation(out) ? out : "{" + out + "}";
}

std::string Transformation::key() const {
    std::string out;
    std::vector<uint32_t> order;
    ShapePrinter printer(*this, true, out, &order);
    if (list_) printer.list();
    else printer.shape(root_);
    return out;
}

std::string Transformation::shape_key(uint32_t shape, std::vector<uint32_t>& order) const {
    std::string out;
    ShapePrinter(*this, true, out, &order).shape(shape);
    return out;
}

std::string Transformation::paths_key(uint32_t paths, std::vector<uint32_t>& order) const {
    std::string out;
    ShapePrinter(*this, true, out, &order).paths(paths);
    return out;
}

std::string Transformation::term_key(uint32_t term, std::vector<uint32_t>& order) const {
    std::string out;
    ShapePrinter(*this, true, out, &order).term(term);
    return out;
}

}  // namespace treecast
