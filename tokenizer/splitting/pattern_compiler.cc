#include "tokenizer/splitting/pattern_compiler.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/utf8.h"

namespace ibid {

Result<Pattern> Pattern::parse(std::string_view expression) {
  Pattern out;
  if (expression.size() > kMaxExpressionBytes) {
    return {ErrorCode::kUnsupported, "more than " + std::to_string(kMaxExpressionBytes) + " bytes"};
  }
  if (std::optional<std::string> failure = PatternCompiler(expression, out).compile()) {
    return {ErrorCode::kUnsupported, *std::move(failure)};
  }
  return out;
}

Pattern::Pattern(std::string_view expression) {
  const std::optional<std::string> failure = PatternCompiler(expression, *this).compile();
  CHECK(!failure) << expression << ": " << *failure;
}

std::optional<std::string> PatternCompiler::compile() {
  if (!utf8_is_valid(text_.rest())) text_.fail("what is no UTF-8");
  alternatives();
  if (!text_.rest().empty()) text_.fail("a ) without its (");
  out_.program_.push_back({Op::kMatch});
  for (Pattern::Instruction& x : out_.program_) {
    if (x.op == Op::kSplit) x.choice = out_.n_splits_++;
  }
  if (out_.n_splits_ > Pattern::kMaxSplits) text_.fail("more than " + std::to_string(Pattern::kMaxSplits) + " choices");
  if (text_.failed()) return text_.failure();
  out_.may_match_nothing_ = may_be_empty(0, here() - 1, out_.looks_behind_);
  return std::nullopt;
}

void PatternCompiler::emit(Pattern::Instruction instruction) {
  if (here() >= Pattern::kMaxInstructions) {
    text_.fail("more than " + std::to_string(Pattern::kMaxInstructions) + " instructions");
    return;
  }
  out_.program_.push_back(instruction);
}

void PatternCompiler::insert(size_t at, Pattern::Instruction instruction) {
  for (Pattern::Instruction& x : out_.program_) {
    const bool jumps = x.op == Op::kSplit || x.op == Op::kJump;
    if (jumps && x.a > at) ++x.a;
    if ((x.op == Op::kSplit || x.op == Op::kLook) && x.b > at) ++x.b;
  }
  // What jumped to `at` from inside still means the instruction that was there.
  for (size_t i = at; i < out_.program_.size(); ++i) {
    Pattern::Instruction& x = out_.program_[i];
    if ((x.op == Op::kSplit || x.op == Op::kJump) && x.a == at) ++x.a;
    if (x.op == Op::kSplit && x.b == at) ++x.b;
  }
  out_.program_.insert(out_.program_.begin() + static_cast<ptrdiff_t>(at), instruction);
}

void PatternCompiler::copy(const Program& body, size_t distance) {
  const auto moved = static_cast<uint32_t>(distance);
  for (Pattern::Instruction x : body) {
    if (x.op == Op::kSplit || x.op == Op::kJump) x.a += moved;
    if (x.op == Op::kSplit || x.op == Op::kLook) x.b += moved;
    emit(x);
  }
}

void PatternCompiler::alternatives() {
  if (!text_.enter()) {
    text_.fail("more than " + std::to_string(PatternText::kMaxDepth) + " groups and alternatives in one another");
  }
  const size_t begin = here();
  sequence();
  sets_.forget_last();
  if (text_.take("|")) {
    insert(begin, {.op = Op::kSplit, .a = static_cast<uint32_t>(begin + 1)});
    const size_t jump = here();
    emit({Op::kJump});
    out_.program_[begin].b = static_cast<uint32_t>(here());
    alternatives();
    if (jump < here()) out_.program_[jump].a = static_cast<uint32_t>(here());
  }
  text_.leave();
}

void PatternCompiler::sequence() {
  while (!text_.rest().empty() && text_.rest()[0] != '|' && text_.rest()[0] != ')') {
    const size_t begin = here();
    item();
    quantify(begin);
  }
}

void PatternCompiler::group() {
  const bool outer = sets_.ignores_case();
  if (text_.take("?i:")) {
    sets_.set_ignores_case(true);
  } else if (!text_.take("?:") && text_.rest().starts_with('?')) {
    return text_.fail("a group that begins with (" + std::string(text_.rest().substr(0, 2)));
  }
  sets_.forget_last();
  alternatives();
  sets_.set_ignores_case(outer);
  if (!text_.take(")")) text_.fail("a ( without its )");
}

void PatternCompiler::item() {
  for (const auto& [text, wanted] : {std::pair("(?=", true), std::pair("(?!", false)}) {
    if (!text_.take(text)) continue;
    const size_t look = here();
    emit({.op = Op::kLook, .wanted = wanted});
    alternatives();
    if (!text_.take(")")) return text_.fail("a ( without its )");
    emit({Op::kMatch});
    if (look < here()) out_.program_[look].b = static_cast<uint32_t>(here());
    return;
  }
  if (text_.take("(")) {
    group();
  } else if (text_.take("\\b")) {
    emit({Op::kWordBoundary});
  } else if (text_.take("$")) {
    emit({Op::kLineEnd});
  } else {
    emit_set(sets_.read());
  }
}

void PatternCompiler::emit_set(CharSet set) {
  out_.sets_.push_back(std::move(set));
  emit({.op = Op::kSet, .a = static_cast<uint32_t>(out_.sets_.size() - 1)});
}

// {n}, {n,}, {,m}, {n,m}; the brace was read.
bool PatternCompiler::bounds(uint32_t& min, uint32_t& max) {
  const size_t end = text_.rest().find('}');
  const auto number = [](std::string_view digits, uint32_t& out) {
    const auto [at, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return code == std::errc() && at == digits.data() + digits.size() && out <= Pattern::kMaxRepeats;
  };
  if (end == text_.rest().npos) return false;
  const std::string_view inside = text_.rest().substr(0, end);
  const size_t comma = std::min(inside.find(','), inside.size());
  const std::string_view first = inside.substr(0, comma);
  if (first.empty() ? comma == inside.size() : !number(first, min)) return false;
  if (first.empty()) min = 0;
  max = min;
  if (comma < inside.size()) {
    const std::string_view second = inside.substr(comma + 1);
    max = Pattern::kMany;
    if (second.empty() ? first.empty() : !number(second, max)) return false;
  }
  text_.skip(end + 1);
  return min <= max && max > 0;
}

void PatternCompiler::quantify(size_t begin) {
  uint32_t min = 1, max = 1;
  bool counted = false;
  if (text_.take("?")) {
    min = 0;
  } else if (text_.take("*")) {
    min = 0, max = Pattern::kMany;
  } else if (text_.take("+")) {
    max = Pattern::kMany;
  } else if (text_.take("{")) {
    counted = true;
    if (!bounds(min, max)) return text_.fail("{ that is no count up to " + std::to_string(Pattern::kMaxRepeats));
  } else {
    return;
  }
  sets_.forget_last();
  if (text_.rest().starts_with('?')) return text_.fail("a lazy quantifier");
  // Behind a count, + repeats the whole.
  const bool possessive = !counted && text_.take("+");
  if (text_.failed() || begin >= here()) return text_.fail("a quantifier without its item");
  Pattern::Instruction& first = out_.program_[begin];
  if (here() == begin + 1 && first.op == Op::kSet) {
    first = {.op = Op::kRepeat, .possessive = possessive, .a = first.a, .min = min, .max = max};
  } else if (possessive) {
    return text_.fail("a possessive quantifier of a group");
  } else {
    repeat_group(begin, min, max);
  }
  if (counted && text_.rest().starts_with('+')) return quantify(begin);
  if (!text_.rest().empty() && std::string_view("*+{").find(text_.rest()[0]) != std::string_view::npos) {
    text_.fail("a quantifier of a quantifier");
  }
}

void PatternCompiler::repeat_group(size_t begin, uint32_t min, uint32_t max) {
  bool boundary = false;
  if (max == Pattern::kMany && may_be_empty(begin, here(), boundary)) {
    return text_.fail("a repeat of what may be empty");
  }
  const Program body(out_.program_.begin() + static_cast<ptrdiff_t>(begin), out_.program_.end());
  out_.program_.resize(begin);
  const auto add_body = [&] { copy(body, here() - begin); };
  size_t last = begin;
  for (uint32_t n = 0; n < min && !text_.failed(); ++n) {
    last = here();
    add_body();
  }
  if (max == Pattern::kMany && min > 0) {
    emit({.op = Op::kSplit, .a = static_cast<uint32_t>(last), .b = static_cast<uint32_t>(here() + 1)});
    return;
  }
  std::vector<size_t> ways_out;
  for (uint32_t n = min; n < (max == Pattern::kMany ? 1 : max) && !text_.failed(); ++n) {
    ways_out.push_back(here());
    emit({.op = Op::kSplit, .a = static_cast<uint32_t>(here() + 1)});
    add_body();
  }
  if (max == Pattern::kMany) emit({.op = Op::kJump, .a = static_cast<uint32_t>(begin)});
  for (const size_t way : ways_out) {
    if (way < here()) out_.program_[way].b = static_cast<uint32_t>(here());
  }
}

bool PatternCompiler::may_be_empty(size_t begin, size_t end, bool& boundary) const {
  std::vector<bool> seen(end - begin + 1);
  std::vector<size_t> todo{begin};
  bool empty = false;
  while (!todo.empty()) {
    const size_t pc = todo.back();
    todo.pop_back();
    if (pc == end) empty = true;
    if (pc < begin || pc >= end || seen[pc - begin]) continue;
    seen[pc - begin] = true;
    const Pattern::Instruction& x = out_.program_[pc];
    switch (x.op) {
      case Op::kSet:
      case Op::kMatch: break;
      case Op::kRepeat:
        if (x.min == 0) todo.push_back(pc + 1);
        break;
      case Op::kSplit: todo.insert(todo.end(), {x.a, x.b}); break;
      case Op::kJump: todo.push_back(x.a); break;
      case Op::kLook: todo.insert(todo.end(), {pc + 1, size_t{x.b}}); break;
      case Op::kWordBoundary: boundary = true; [[fallthrough]];
      case Op::kLineEnd: todo.push_back(pc + 1); break;
    }
  }
  return empty;
}

}  // namespace ibid
