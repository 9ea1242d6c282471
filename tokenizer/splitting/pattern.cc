#include "tokenizer/splitting/pattern.h"

#include <algorithm>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {

namespace {

// Outcome of a choice at a position, recorded in Pattern::Memory::outcomes.
enum Outcome : uint8_t { kUndecided, kFails, kMatches };

}  // namespace

class Pattern::Run {
 public:
  Run(const Pattern& pattern, const PatternWindow& window, Memory& memory)
      : pattern_(pattern), window_(window), memory_(memory), retreats_(memory.retreats) {}

  // Continues the match at instruction `pc`. Returns its end, or nullopt. looking: only the existence of a match
  // matters.
  std::optional<size_t> from(size_t pc, size_t position, bool looking) {
    const size_t floor = retreats_.size(), first_choice = memory_.choices.size();
    for (;;) {
      if (++memory_.steps > kManySteps + kStepsPerByte * (position - window_.begin)) enable_memo();
      const Outcome known = memory_.remembers ? outcome(pc, position, looking) : kUndecided;
      const std::optional<Step> next = known == kUndecided ? step(pc, position) : std::nullopt;
      if ((next && next->done) || known == kMatches) {
        retreats_.resize(floor);
        settle(first_choice, 0, looking ? kMatches : kUndecided);
        return known == kMatches ? position : next->position;
      }
      if (next) {
        pc = next->pc;
        position = next->position;
      } else if (!go_back(floor, first_choice, pc, position)) {
        settle(first_choice, 0, kFails);
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
    size_t length;  // 0: the end of the text
  };

  Char at(size_t position) {
    if (position >= window_.safe_end) touched_ = true;
    if (position >= window_.end) return {CharSet::kInvalid, 0};
    const std::string_view text = window_.text.substr(0, window_.end);
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < 0x80) return {byte, 1};
    const DecodedChar c = utf8_decode(text, position);
    if (c.valid) return {c.code_point, c.length};
    // An append may complete a character that is cut by the end of the text.
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
    if (c.length == 0 || c.code_point == CharSet::kInvalid) return false;
    const bool number_of_latin1 = c.code_point == 0xB2 || c.code_point == 0xB3 || c.code_point == 0xB9 ||
                                  (c.code_point >= 0xBC && c.code_point <= 0xBE);
    // the zero-width joiners are no word characters in Oniguruma
    const bool joins = c.code_point == 0x200C || c.code_point == 0x200D;
    return number_of_latin1 || (is_word(c.code_point) && !joins);
  }

  void enable_memo() {
    if (memory_.remembers) return;
    memory_.remembers = true;
    memory_.touched = false;
    memory_.outcomes.assign(pattern_.n_splits_ * (window_.end - window_.begin + 1) / kOutcomesPerByte + 1, 0);
    memory_.failed_runs.assign(pattern_.program_.size(), {});
    memory_.good_runs.assign(pattern_.program_.size(), {});
  }

  size_t place_of(const Instruction& split, size_t position) const {
    return split.choice * (window_.end - window_.begin + 1) + (position - window_.begin);
  }

  // Returns the recorded outcome of continuing at `pc`. A recorded match is used only if `looking`, because its end is
  // not recorded.
  Outcome outcome(size_t pc, size_t position, bool looking) {
    const Instruction& x = pattern_.program_[pc];
    uint8_t known = kUndecided;
    if (x.op == Op::kSplit) {
      const size_t place = place_of(x, position);
      known = memory_.outcomes[place / kOutcomesPerByte] >> 2 * (place % kOutcomesPerByte) & 3;
    } else if (x.op == Op::kRepeat && x.max == kMany) {
      const auto in = [position](const Memory::Run& run) { return position >= run.begin && position < run.end; };
      if (in(memory_.failed_runs[pc])) known = kFails;
      if (x.min <= 1 && in(memory_.good_runs[pc])) known = kMatches;
    }
    if (known == kMatches && !looking) return kUndecided;
    if (known != kUndecided) touched_ |= memory_.touched;
    return static_cast<Outcome>(known);
  }

  void choose(size_t pc, size_t position, size_t taken, size_t run_end) {
    if (memory_.remembers) memory_.choices.push_back({pc, position, retreats_.size(), taken, run_end});
  }

  // Removes the last choices, and records `became` as the outcome of each: all choices from number `first` on or, if
  // `became` is kFails, only those whose backtracking points all have numbers of at least `height`. A choice in a run
  // of characters of one set is recorded for the whole run, because the same continuations follow from all of its
  // positions.
  void settle(size_t first, size_t height, Outcome became) {
    std::vector<Choice>& choices = memory_.choices;
    if (touched_) memory_.touched = true;
    while (choices.size() > first && (became != kFails || choices.back().height >= height)) {
      const Choice& choice = choices.back();
      const Instruction& x = pattern_.program_[choice.pc];
      if (became == kUndecided) {
      } else if (x.op == Op::kSplit) {
        const size_t place = place_of(x, choice.position);
        memory_.outcomes[place / kOutcomesPerByte] |= static_cast<uint8_t>(became << 2 * (place % kOutcomesPerByte));
      } else if (became == kFails) {
        memory_.failed_runs[choice.pc] = {choice.position, choice.run_end};
      } else {
        memory_.good_runs[choice.pc] = {choice.position, choice.taken};
      }
      choices.pop_back();
    }
  }

  bool go_back(size_t floor, size_t first_choice, size_t& pc, size_t& position) {
    if (retreats_.size() == floor) return false;
    settle(first_choice, retreats_.size(), kFails);  // all choices made after the last backtracking point have failed
    Retreat& retreat = retreats_.back();
    if (memory_.choices.size() > first_choice && memory_.choices.back().pc + 1 == retreat.pc) {
      memory_.choices.back().taken = retreat.position;
    }
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
    const size_t begin = position;
    const bool knows = memory_.remembers && x.max == kMany && x.min <= 1;
    const Memory::Run failed = knows ? memory_.failed_runs[pc] : Memory::Run{};
    size_t run_end = 0;
    for (; n < x.max; ++n) {
      // Skip a failed run, because all continuations from inside it fail.
      if (position == failed.begin && position < failed.end && n > 0) {
        run_end = failed.end;
        touched_ |= memory_.touched;
        break;
      }
      const Char c = at(position);
      if (c.length == 0 || !set.contains(c.code_point)) break;
      position += c.length;
      if (n < x.min) least = position;
    }
    memory_.steps += n;
    if (n < x.min) return std::nullopt;
    const bool ends = pattern_.program_[pc + 1].op == Op::kMatch;
    if (!x.possessive && !ends) {
      if (x.max == kMany) choose(pc, begin, position, std::max(position, run_end));
      if (position > least) retreats_.push_back({pc + 1, previous(position), least});
    }
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
      case Op::kSplit:
        choose(pc, position, position, position);
        retreats_.push_back({x.b, position, position});
        return Step{x.a, position};
      case Op::kJump: return Step{x.a, position};
      case Op::kLook:
        if (from(pc + 1, position, true).has_value() != x.wanted) return std::nullopt;
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
  Memory& memory_;
  std::vector<Retreat>& retreats_;
  bool touched_ = false;

  static constexpr size_t kManySteps = 4096, kStepsPerByte = 32;
  static constexpr size_t kOutcomesPerByte = 4;
};

std::optional<size_t> Pattern::match(const PatternWindow& window, size_t position, Memory& memory,
                                     bool& touched) const {
  Run run(*this, window, memory);
  const std::optional<size_t> end = run.from(0, position, false);
  touched |= run.touched();
  return end;
}

}  // namespace ibid
