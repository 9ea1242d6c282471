#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/splitting/pattern.h"

namespace ibid {

// Compiles a syntax tree to the program of a Pattern. Used once. The functions that add the instructions of a node
// return whether the node may match nothing. `at_start`: a match may reach the node without having consumed a
// character.
class PatternCompiler {
 public:
  explicit PatternCompiler(Pattern& out) : out_(out) {}

  Status compile(const RegexNode& root) {
    out_.may_match_nothing_ = add(root, true);
    emit({Op::kMatch});
    return status_;
  }

 private:
  using Kind = RegexNode::Kind;
  using Op = Pattern::Op;

  bool add(const RegexNode& node, bool at_start);
  bool add_choice(const RegexNode& node, bool at_start);
  bool add_repeat(const RegexNode& node, bool at_start);
  bool add_copies(const RegexNode& node, bool at_start);
  uint32_t set_of(const RegexNode& node);

  uint32_t here() const { return static_cast<uint32_t>(out_.program_.size()); }
  // Returns the index of the instruction.
  uint32_t emit(Pattern::Instruction instruction);
  void refuse(const RegexNode& node, std::string_view what) {
    if (status_.ok()) status_ = regex_error(ErrorCode::kUnsupported, what, node.at);
  }
  void exceed(size_t limit, std::string_view what) {
    if (status_.ok()) status_ = {ErrorCode::kLimitExceeded, "more than " + std::to_string(limit) + std::string(what)};
  }

  Pattern& out_;
  Status status_;
  std::map<const RegexNode*, uint32_t> sets_;  // all copies of a repeated part share one set
};

uint32_t PatternCompiler::emit(Pattern::Instruction instruction) {
  if (instruction.op == Op::kSplit) instruction.choice = out_.n_splits_++;
  if (here() >= Pattern::kMaxInstructions) exceed(Pattern::kMaxInstructions, " instructions");
  if (out_.n_splits_ > Pattern::kMaxSplits) exceed(Pattern::kMaxSplits, " choices");
  if (!status_.ok()) return 0;
  out_.program_.push_back(instruction);
  return here() - 1;
}

uint32_t PatternCompiler::set_of(const RegexNode& node) {
  const auto [found, is_new] = sets_.emplace(&node, static_cast<uint32_t>(out_.sets_.size()));
  if (is_new) out_.sets_.emplace_back(node.set);
  return found->second;
}

bool PatternCompiler::add(const RegexNode& node, bool at_start) {
  if (!status_.ok()) return false;
  switch (node.kind) {
    case Kind::kEmpty: return true;
    case Kind::kSet: emit({.op = Op::kSet, .a = set_of(node)}); return false;
    case Kind::kSequence: {
      bool empty = true;
      for (const RegexNode& part : node.parts) empty &= add(part, at_start && empty);
      return empty;
    }
    case Kind::kChoice: return add_choice(node, at_start);
    case Kind::kRepeat: return add_repeat(node, at_start);
    case Kind::kLook: {
      const uint32_t look = emit({.op = Op::kLook, .wanted = node.wanted});
      add(node.parts[0], at_start);
      emit({Op::kMatch});
      if (status_.ok()) out_.program_[look].b = here();
      return true;
    }
    case Kind::kBegin: refuse(node, "a ^"); return true;
    case Kind::kEnd: emit({Op::kLineEnd}); return true;
    case Kind::kWordBoundary:
      out_.looks_behind_ |= at_start;
      emit({Op::kWordBoundary});
      return true;
  }
  return true;
}

bool PatternCompiler::add_choice(const RegexNode& node, bool at_start) {
  bool empty = false;
  std::vector<uint32_t> jumps;
  for (const RegexNode& part : node.parts) {
    const bool is_last = &part == &node.parts.back();
    const uint32_t split = is_last ? 0 : emit({.op = Op::kSplit, .a = here() + 1});
    empty |= add(part, at_start);
    if (is_last) break;
    jumps.push_back(emit({Op::kJump}));
    if (status_.ok()) out_.program_[split].b = here();
  }
  if (!status_.ok()) return empty;
  for (const uint32_t jump : jumps) out_.program_[jump].a = here();
  return empty;
}

bool PatternCompiler::add_repeat(const RegexNode& node, bool at_start) {
  const bool possessive = node.mode == RegexNode::Mode::kPossessive;
  const RegexNode& part = node.parts[0];
  if (node.mode == RegexNode::Mode::kLazy) {
    refuse(node, "a lazy quantifier");
  } else if (part.kind == Kind::kSet) {
    emit({.op = Op::kRepeat, .possessive = possessive, .a = set_of(part), .min = node.min, .max = node.max});
    return node.min == 0;
  } else if (possessive) {
    refuse(node, "a possessive quantifier of a group");
  } else if (const bool empty = add_copies(node, at_start); empty && node.max == RegexNode::kUnbounded) {
    refuse(node, "a repetition of an item that may be empty");
  } else {
    return empty || node.min == 0;
  }
  return true;
}

// Adds the instructions of a repetition. Returns whether it may match nothing.
bool PatternCompiler::add_copies(const RegexNode& node, bool at_start) {
  const bool unbounded = node.max == RegexNode::kUnbounded;
  const uint32_t begin = here();
  bool empty = true;
  uint32_t last = begin, n = 0;
  const auto add_copy = [&] {
    last = here();
    empty &= add(node.parts[0], at_start && empty);
  };
  for (; n < node.min && status_.ok(); ++n) add_copy();
  if (unbounded && node.min > 0) {
    emit({.op = Op::kSplit, .a = last, .b = here() + 1});
    return empty;
  }
  std::vector<uint32_t> ways_out;
  for (; n < (unbounded ? 1 : node.max) && status_.ok(); ++n) {
    ways_out.push_back(emit({.op = Op::kSplit, .a = here() + 1}));
    add_copy();
  }
  if (unbounded) emit({.op = Op::kJump, .a = begin});
  if (!status_.ok()) return empty;
  for (const uint32_t way : ways_out) out_.program_[way].b = here();
  return empty;
}

Result<Pattern> Pattern::parse(std::string_view expression) {
  Pattern out;
  const Result<RegexNode> root = parse_regex(expression, RegexDialect::kOniguruma);
  const Status status = root.ok() ? PatternCompiler(out).compile(*root) : root.status();
  if (!status.ok()) return {ErrorCode::kUnsupported, status.message()};
  return out;
}

Pattern::Pattern(std::string_view expression) : Pattern(parse(expression).value()) {}

}  // namespace ibid
