#include "tokenizer/pattern.h"

#include "base/utf8.h"

namespace ibid {

// One match.
class Pattern::Run {
 public:
  Run(const Pattern& pattern, const PatternWindow& window, std::vector<Retreat>& retreats)
      : pattern_(pattern), window_(window), retreats_(retreats) {}

  std::optional<size_t> from(size_t pc, size_t position) {
    const size_t floor = retreats_.size();
    for (;;) {
      const std::optional<Step> next = step(pc, position);
      if (next && next->done) {
        retreats_.resize(floor);
        return next->position;
      }
      if (next) {
        pc = next->pc;
        position = next->position;
      } else if (!go_back(floor, pc, position)) {
        return std::nullopt;
      }
    }
  }

  bool touched() const { return touched_; }

 private:
  struct Step {
    size_t pc, position;
    bool done = false;
  };
  struct Char {
    uint32_t code_point;
    size_t length;  // 0: the end
  };

  Char at(size_t position) {
    if (position >= window_.safe_end) touched_ = true;
    if (position >= window_.end) return {CharSet::kInvalid, 0};
    const std::string_view text = window_.text.substr(0, window_.end);
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < 0x80) return {byte, 1};
    const DecodedChar c = utf8_decode(text, position);
    if (c.valid) return {c.code_point, c.length};
    // A character that is cut by the end of the text may still become one.
    const bool cut = position + c.length == window_.text.size() && utf8_incomplete_tail(text.substr(position)) > 0;
    if (cut && position + c.length >= window_.safe_end) touched_ = true;
    return {CharSet::kInvalid, c.length};
  }

  size_t previous(size_t position) const {
    size_t begin = position - 1;
    for (int i = 0; i < 3 && begin > window_.begin && (static_cast<unsigned char>(window_.text[begin]) & 0xC0) == 0x80;
         ++i) {
      --begin;
    }
    const DecodedChar c = utf8_decode(window_.text.substr(0, position), begin);
    return begin + c.length == position ? begin : position - 1;
  }

  bool is_word_at(size_t position) {
    const Char c = at(position);
    return c.length > 0 && c.code_point != CharSet::kInvalid && is_word(c.code_point);
  }

  bool go_back(size_t floor, size_t& pc, size_t& position) {
    if (retreats_.size() == floor) return false;
    Retreat& retreat = retreats_.back();
    pc = retreat.pc;
    position = retreat.position;
    if (retreat.position > retreat.least) {
      retreat.position = previous(retreat.position);
    } else {
      retreats_.pop_back();
    }
    return true;
  }

  std::optional<Step> repeat(const Instruction& x, size_t pc, size_t position) {
    const CharSet& set = pattern_.sets_[x.a];
    size_t least = position;
    uint32_t n = 0;
    for (; n < x.max; ++n) {
      const Char c = at(position);
      if (c.length == 0 || !set.contains(c.code_point)) break;
      position += c.length;
      if (n < x.min) least = position;
    }
    if (n < x.min) return std::nullopt;
    const bool ends = pattern_.program_[pc + 1].op == Op::kMatch;
    if (!x.possessive && !ends && position > least) retreats_.push_back({pc + 1, previous(position), least});
    return Step{pc + 1, position};
  }

  std::optional<Step> step(size_t pc, size_t position) {
    const Instruction& x = pattern_.program_[pc];
    switch (x.op) {
      case Op::kSet: {
        const Char c = at(position);
        if (c.length == 0 || !pattern_.sets_[x.a].contains(c.code_point)) return std::nullopt;
        return Step{pc + 1, position + c.length};
      }
      case Op::kRepeat: return repeat(x, pc, position);
      case Op::kSplit: retreats_.push_back({x.b, position, position}); return Step{x.a, position};
      case Op::kJump: return Step{x.a, position};
      case Op::kLook:
        if (from(pc + 1, position).has_value() != x.wanted) return std::nullopt;
        return Step{x.b, position};
      case Op::kWordBoundary: {
        const bool before = position > window_.begin && is_word_at(previous(position));
        if (before == is_word_at(position)) return std::nullopt;
        return Step{pc + 1, position};
      }
      case Op::kLineEnd: {
        const Char c = at(position);
        if (c.length != 0 && c.code_point != '\n') return std::nullopt;
        return Step{pc + 1, position};
      }
      case Op::kMatch: return Step{pc, position, true};
    }
    return std::nullopt;
  }

  const Pattern& pattern_;
  const PatternWindow& window_;
  std::vector<Retreat>& retreats_;
  bool touched_ = false;
};

std::optional<size_t> Pattern::match(const PatternWindow& window, size_t position,
                                     std::vector<Retreat>& scratch, bool& touched) const {
  Run run(*this, window, scratch);
  const std::optional<size_t> end = run.from(0, position);
  touched |= run.touched();
  return end;
}

}  // namespace ibid
