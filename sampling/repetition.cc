#include "sampling/repetition.h"

#include <algorithm>

namespace ibid {
namespace {

// Spans shorter than this are searched together in the lowest level (a level is a range of span lengths), because a
// repetition needs kMinTokens tokens in any case.
constexpr size_t kShortest = 32;

// Number of tokens in which a level (a range of periods) is searched: twice the level's longest period. All periods of
// these tokens, up to half their number, are multiples of the smallest (Fine and Wilf 1965).
constexpr size_t window_of(size_t level_begin) { return 4 * level_begin; }
constexpr size_t kLowestWindow = 2 * kShortest;

// Returns the number of tokens that the repetitions of a span must cover: kMinTokens, rounded up to whole spans, and at
// least kTimes spans.
size_t ids_of_repetition(size_t period) {
  const size_t times = (RepetitionDetector::kMinTokens + period - 1) / period;
  return period * std::max(RepetitionDetector::kTimes, times);
}

}  // namespace

bool RepetitionDetector::push(TokenId id) {
  ids_.push_back(id);
  const size_t n = ids_.size();
  add_levels();
  period_ = 0;
  for (Level& level : levels_) {
    if (level.period > 0) {
      ++n_steps_;
      if (ids_[n - 1 - level.period] != id) level.period = 0;
    }
    // A level (a range of periods from level.begin on) is searched once per level.begin tokens; the lowest, whose
    // `begin` is smaller than kShortest, once per kShortest tokens.
    if (n % std::max(level.begin, kShortest) == 0) search_level(level);
    if (period_ == 0 && level.period > 0 && n - level.run_begin >= ids_of_repetition(level.period)) {
      period_ = level.period;
    }
  }
  return period_ > 0;
}

void RepetitionDetector::add_levels() {
  if (levels_.empty()) {
    if (ids_.size() >= kLowestWindow) levels_.push_back({.begin = 1});
    return;
  }
  const size_t begin = std::max(kShortest, 2 * levels_.back().begin);
  if (ids_.size() >= window_of(begin)) levels_.push_back({.begin = begin});
}

void RepetitionDetector::search_level(Level& level) {
  const bool is_lowest = level.begin < kShortest;
  const size_t n_window = is_lowest ? kLowestWindow : window_of(level.begin);
  const size_t end = is_lowest ? kShortest : 2 * level.begin;
  const size_t n = ids_.size();
  const size_t period = smallest_period(TokenSpan(ids_).last(n_window));
  if (period < level.begin || period >= end || period == level.period) return;
  level.period = period;
  level.run_begin = n - n_window;
  const size_t enough = ids_of_repetition(period);
  while (level.run_begin > 0 && n - level.run_begin < enough &&
         ids_[level.run_begin - 1] == ids_[level.run_begin - 1 + period]) {
    ++n_steps_;
    --level.run_begin;
  }
}

size_t RepetitionDetector::smallest_period(TokenSpan window) {
  // borders_[i]: length of the longest proper prefix of the tokens window[0, i] that is also a suffix of them.
  borders_.resize(std::max(borders_.size(), window.size()));
  borders_[0] = 0;
  for (size_t i = 1; i < window.size(); ++i) {
    uint32_t border = borders_[i - 1];
    while (border > 0 && window[border] != window[i]) {
      ++n_steps_;
      border = borders_[border - 1];
    }
    ++n_steps_;
    borders_[i] = border + (window[border] == window[i] ? 1 : 0);
  }
  return window.size() - borders_[window.size() - 1];
}

}  // namespace ibid
