// Compiles a parsed regular expression to grammar rules.
#include <optional>
#include <utility>
#include <vector>

#include "base/regex/regex.h"
#include "grammar/grammar_rules.h"

namespace ibid {
namespace {

using Kind = RegexNode::Kind;

static_assert(kMaxRegexCount <= kMaxRepetition && RegexNode::kUnbounded == kUnbounded);

// The texts that a node of the regular expression matches, and whether they are anchored to the ends of the text.
struct Anchored {
  ExprId expr = 0;
  bool at_begin = false, at_end = false;
};

class RegexRules {
 public:
  RegexRules(const CharWriter& write, GrammarRules& rules) : write_(write), rules_(rules) {}

  Result<ExprId> compile(const RegexNode& root, RegexMatch match) {
    std::vector<ExprId> exprs;
    const size_t n_alternatives = root.kind == Kind::kChoice ? root.parts.size() : 1;
    for (size_t i = 0; i < n_alternatives; ++i) {
      const Anchored way = add(root.kind == Kind::kChoice ? root.parts[i] : root);
      if (match == RegexMatch::kSearch) {
        // Allow any text before and after the alternative, except where it is anchored.
        const ExprId any = rules_.repeat(write_(CodePointSet::all()), 0, kUnbounded);
        exprs.push_back(
            rules_.sequence({way.at_begin ? rules_.empty() : any, way.expr, way.at_end ? rules_.empty() : any}));
      } else {
        exprs.push_back(way.expr);
      }
    }
    TRY(status_);
    return rules_.choice(exprs);
  }

 private:
  Anchored add(const RegexNode& node) {
    if (!status_.ok()) return {};
    switch (node.kind) {
      case Kind::kEmpty: break;
      case Kind::kSet: return {write_(node.set)};
      case Kind::kSequence: return sequence(node);
      case Kind::kChoice: return choice(node);
      case Kind::kRepeat: return repeat(node);
      case Kind::kLook: return refuse(node, "a lookahead");
      case Kind::kBegin: return {rules_.empty(), true, false};
      case Kind::kEnd: return {rules_.empty(), false, true};
      case Kind::kWordBoundary: return refuse(node, "a word boundary");
    }
    return {rules_.empty()};
  }

  Anchored sequence(const RegexNode& node) {
    Anchored all;
    std::vector<ExprId> exprs;
    for (const RegexNode& part : node.parts) {
      const Anchored one = add(part);
      const bool is_anchor = part.kind == Kind::kBegin || part.kind == Kind::kEnd;
      if ((one.at_begin && !exprs.empty()) || (all.at_end && !is_anchor)) refuse(part, "an anchor in the middle");
      all.at_begin |= one.at_begin;
      all.at_end |= one.at_end;
      if (!is_anchor) exprs.push_back(one.expr);
    }
    all.expr = rules_.sequence(exprs);
    return all;
  }

  Anchored choice(const RegexNode& node) {
    std::optional<Anchored> first;
    std::vector<ExprId> exprs;
    for (const RegexNode& part : node.parts) {
      const Anchored one = add(part);
      if (!first) first = one;
      if (one.at_begin != first->at_begin || one.at_end != first->at_end) {
        refuse(node, "a group with an anchor in some of its alternatives only");
      }
      exprs.push_back(one.expr);
    }
    return {rules_.choice(exprs), first->at_begin, first->at_end};
  }

  Anchored repeat(const RegexNode& node) {
    const Anchored one = add(node.parts[0]);
    if (one.at_begin || one.at_end) return refuse(node, "an anchor that is repeated");
    if (node.mode == RegexNode::Mode::kPossessive) return refuse(node, "a possessive quantifier");
    return {rules_.repeat(one.expr, node.min, node.max)};
  }

  Anchored refuse(const RegexNode& node, std::string_view what) {
    if (status_.ok()) status_ = regex_error(ErrorCode::kUnsupported, what, node.at);
    return {};
  }

  const CharWriter& write_;
  GrammarRules& rules_;
  Status status_;
};

}  // namespace

Result<ExprId> compile_pattern(std::string_view pattern, RegexMatch match, const CharWriter& write,
                               GrammarRules& rules) {
  TRY_ASSIGN(const RegexNode root, parse_regex(pattern, RegexDialect::kEcmaScript));
  return RegexRules(write, rules).compile(root, match);
}

}  // namespace ibid
