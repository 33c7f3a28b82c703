// Canonical printing: one spelling for one meaning, as short as it can be without being read otherwise.
//
// The same walk prints two texts: text() with the prefixes as written, and key() with each name expanded to {uri}local,
// which is what equality and hashing compare.
#include "query.hpp"

namespace treecast {

namespace {

const char* axis_text(Axis axis) {
    switch (axis) {
        case Axis::child: return "";
        case Axis::attribute: return "@";
        case Axis::self: return "self::";
        case Axis::descendant: return "descendant::";
        case Axis::descendant_or_self: return "descendant-or-self::";
    }
    return "";
}

const char* relation_text(Relation relation) {
    static const char* const texts[] = {"=", "!=", "<", "<=", ">", ">="};
    return texts[static_cast<int>(relation)];
}

// A number without needless zeros: 007.50 -> 7.5, .5 -> 0.5, -0 -> 0.
void print_number(std::string_view digits, bool negative, std::string& out) {
    size_t point = digits.find('.');
    std::string_view whole = digits.substr(0, point);
    std::string_view fraction = point == std::string_view::npos ? std::string_view() : digits.substr(point + 1);
    while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
    while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
    if (negative && !(whole.empty() && fraction.empty())) out += '-';
    if (whole.empty()) out += '0';
    out += whole;
    if (!fraction.empty()) (out += '.') += fraction;
}

class Printer {
public:
    Printer(const Query& query, bool expanded, std::string& out) : query_(query), expanded_(expanded), out_(out) {}

    void paths(uint32_t first) {
        query_.each_path(first, [&](uint32_t index, const PathEntry& path) {
            if (index != first) out_ += " | ";
            one_path(path);
        });
    }

private:
    void one_path(const PathEntry& path) {
        if (path.first == no_entry) out_ += '.';
        query_.each_step(path.first, [&](uint32_t index, const Step& step) {
            bool leading = index == path.first && !path.absolute;
            if (step.gap) out_ += leading ? ".//" : "//";
            else if (!leading) out_ += '/';
            one_step(step);
        });
    }

    void one_step(const Step& step) {
        out_ += axis_text(step.axis);
        if (step.kind == StepKind::text) out_ += "text()";
        else name_test(step);
        query_.each_expr(step.predicates, [&](uint32_t, const Expr& expr) {
            out_ += '[';
            predicate(expr);
            out_ += ']';
        });
    }

    void name_test(const Step& step) {
        bool has_uri = step.test == Test::name || step.test == Test::any_namespace;
        // The size before the URI keeps keys apart whatever characters the URI holds.
        if (has_uri && expanded_)
            ((((out_ += '{') += std::to_string(step.uri.size)) += ':') += query_.uri(step)) += '}';
        if (has_uri && !expanded_ && step.prefix.size) (out_ += query_.view(step.prefix)) += ':';
        if (step.test == Test::name) {
            out_ += query_.view(step.local);
            return;
        }
        out_ += '*';
        if (step.test != Test::any_local) return;
        out_ += "[local-name()=";
        literal(query_.view(step.local));
        out_ += ']';
    }

    // A whole predicate: a position may be written short there, and nowhere else.
    void predicate(const Expr& expr) {
        if (expr.kind == ExprKind::position && expr.relation == Relation::eq) value(query_.value(expr.value));
        else if (expr.kind == ExprKind::position_last && expr.relation == Relation::eq) out_ += "last()";
        else condition(expr);
    }

    void condition(const Expr& expr) {
        switch (expr.kind) {
            case ExprKind::conjunction: operands(expr, " and "); break;
            case ExprKind::disjunction: operands(expr, " or "); break;
            case ExprKind::negation:
                out_ += "not(";
                condition(query_.expr(expr.first));
                out_ += ')';
                break;
            case ExprKind::exists: paths(expr.first); break;
            case ExprKind::compare:
                paths(expr.first);   // a | b=1 is (a | b)=1: of the operators '|' binds closest
                related("", expr);
                break;
            case ExprKind::contains: call("contains(", expr); break;
            case ExprKind::starts_with: call("starts-with(", expr); break;
            case ExprKind::position: related("position()", expr); break;
            case ExprKind::position_last: ((out_ += "position()") += relation_text(expr.relation)) += "last()"; break;
            case ExprKind::last: related("last()", expr); break;
        }
    }

    void operands(const Expr& expr, const char* connective) {
        query_.each_expr(expr.first, [&](uint32_t index, const Expr& operand) {
            if (index != expr.first) out_ += connective;
            bool weaker = expr.kind == ExprKind::conjunction && operand.kind == ExprKind::disjunction;
            if (weaker) out_ += '(';
            condition(operand);
            if (weaker) out_ += ')';
        });
    }

    void call(const char* opening, const Expr& expr) {
        out_ += opening;
        paths(expr.first);
        out_ += ", ";
        value(query_.value(expr.value));
        out_ += ')';
    }

    void related(const char* left, const Expr& expr) {
        (out_ += left) += relation_text(expr.relation);
        value(query_.value(expr.value));
    }

    void value(const Value& value) {
        if (value.is_number) print_number(query_.view(value.text), value.negative, out_);
        else literal(query_.view(value.text));
    }

    void literal(std::string_view text) {
        char quote = text.find('"') == std::string_view::npos ? '"' : '\'';
        ((out_ += quote) += text) += quote;
    }

    const Query& query_;
    bool expanded_;
    std::string& out_;
};

}  // namespace

std::string Query::text() const {
    std::string out;
    Printer(*this, false, out).paths(branches_);
    return out;
}

std::string Query::key() const {
    std::string out;
    Printer(*this, true, out).paths(branches_);
    return out;
}

}  // namespace treecast
