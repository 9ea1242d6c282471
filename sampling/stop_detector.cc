#include "sampling/stop_detector.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace ibid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A prefix of a stop string: the first `depth` bytes of strings[string].
struct State {
  uint32_t string = 0;
  uint32_t depth = 0;
  uint32_t fall_back = 0;  // the longest other state whose text is a suffix of this state's text
  uint32_t match = kNone;  // longest stop string that is a suffix of this state's text
  uint32_t first_child = kNone;
  uint32_t next_sibling = kNone;
  char byte = 0;  // last byte of the state's text
};

}  // namespace

struct StopDetector::Automaton {
  std::vector<std::string> strings;
  std::vector<State> states{State{}};

  // Searches the list of the state's children, which has at most kMaxStrings entries.
  uint32_t child(uint32_t state, char byte) const {
    uint32_t next = states[state].first_child;
    while (next != kNone && states[next].byte != byte) next = states[next].next_sibling;
    return next;
  }

  uint32_t step(uint32_t state, char byte) const {
    for (;;) {
      if (const uint32_t next = child(state, byte); next != kNone) return next;
      if (state == 0) return 0;
      state = states[state].fall_back;
    }
  }

  void insert(uint32_t string);
  void link();
};

void StopDetector::Automaton::insert(uint32_t string) {
  uint32_t state = 0;
  for (const char byte : strings[string]) {
    uint32_t next = child(state, byte);
    if (next == kNone) {
      next = static_cast<uint32_t>(states.size());
      State fresh;
      fresh.string = string;
      fresh.depth = states[state].depth + 1;
      fresh.byte = byte;
      fresh.next_sibling = states[state].first_child;
      states[state].first_child = next;
      states.push_back(fresh);
    }
    state = next;
  }
  states[state].match = string;
}

// Processes states breadth first, so that the fall-back state of a state is complete before it is needed.
void StopDetector::Automaton::link() {
  std::vector<uint32_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t parent = order[i];
    for (uint32_t s = states[parent].first_child; s != kNone; s = states[s].next_sibling) {
      State& state = states[s];
      state.fall_back = parent == 0 ? 0 : step(states[parent].fall_back, state.byte);
      if (state.match == kNone) state.match = states[state.fall_back].match;
      order.push_back(s);
    }
  }
}

Result<StopDetector> StopDetector::create(const std::vector<std::string>& stop_strings) {
  if (stop_strings.size() > kMaxStrings) {
    return {ErrorCode::kInvalidArgument, "stop_strings: " + std::to_string(stop_strings.size()) +
                                             " strings, allowed: 0 to " + std::to_string(kMaxStrings)};
  }
  StopDetector detector;
  if (stop_strings.empty()) return detector;
  auto automaton = std::make_shared<Automaton>();
  automaton->strings = stop_strings;
  for (uint32_t i = 0; i < stop_strings.size(); ++i) {
    const std::string name = "stop_strings[" + std::to_string(i) + "]: ";
    const size_t n = stop_strings[i].size();
    if (n == 0 || n > kMaxBytes) {
      return {ErrorCode::kInvalidArgument,
              name + std::to_string(n) + " bytes, allowed: 1 to " + std::to_string(kMaxBytes)};
    }
    if (!utf8_is_valid(stop_strings[i])) {
      return {ErrorCode::kInvalidArgument, name + "not valid UTF-8, as every answer is"};
    }
    automaton->insert(i);
  }
  automaton->link();
  detector.automaton_ = std::move(automaton);
  return detector;
}

StopDetector::Step StopDetector::push(std::string_view piece) {
  CHECK(found_.empty()) << "push after a stop";
  if (!automaton_) return {std::string(piece), false};
  Step out;
  for (const char byte : piece) {
    const State& before = automaton_->states[state_];
    state_ = automaton_->step(state_, byte);
    const State& after = automaton_->states[state_];
    // Before and after this byte, the text held back is a prefix of a stop string. Emit the text that is no longer part
    // of this prefix. If a stop string matched, emit the text before the stop string.
    if (after.match != kNone) found_ = automaton_->strings[after.match];
    const size_t keep = found_.empty() ? after.depth : found_.size();
    const size_t release = before.depth + 1 - keep;
    const std::string& held = automaton_->strings[before.string];
    out.text.append(held, 0, std::min<size_t>(release, before.depth));
    if (release > before.depth) out.text.push_back(byte);
    if (!found_.empty()) {
      state_ = 0;
      out.stopped = true;
      return out;
    }
  }
  return out;
}

std::string StopDetector::finish() {
  const std::string held =
      automaton_ ? automaton_->strings[automaton_->states[state_].string].substr(0, n_held_back()) : std::string();
  state_ = 0;
  return held;
}

size_t StopDetector::n_held_back() const { return automaton_ ? automaton_->states[state_].depth : 0; }

}  // namespace ibid
