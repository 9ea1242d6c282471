#include "sampling/token_history.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

uint32_t RepeatIndex::find_edge(uint32_t state, TokenId id) const {
  ++n_steps_;
  const auto found = edge_of_.find(edge_key(state, id));
  return found == edge_of_.end() ? kNone : found->second;
}

void RepeatIndex::add_edge(uint32_t from, TokenId id, uint32_t to) {
  ++n_steps_;
  const auto edge = static_cast<uint32_t>(edges_.size());
  edges_.push_back({from, id, to, states_[from].first_edge});
  states_[from].first_edge = edge;
  edge_of_.emplace(edge_key(from, id), edge);
}

void RepeatIndex::append(TokenId id) {
  if (states_.empty()) states_.emplace_back();
  const uint32_t before = records_.empty() ? 0 : records_.back().state;
  const auto state = static_cast<uint32_t>(states_.size());
  Record record{
      state, end_state_, end_length_, static_cast<uint32_t>(edges_.size()), static_cast<uint32_t>(end_changes_.size()),
      kNone, kNone,      kNone};
  const auto n = static_cast<uint32_t>(ids_.size());
  states_.push_back({n + 1, kNone, n, kNone});
  ids_.push_back(id);
  uint32_t p = before;
  while (p != kNone && find_edge(p, id) == kNone) {
    add_edge(p, id, state);
    p = states_[p].link;
  }
  const uint32_t link = p == kNone ? 0 : link_target(p, id, record);
  states_[state].link = link;
  advance_end(id);
  records_.push_back(record);
}

uint32_t RepeatIndex::link_target(uint32_t p, TokenId id, Record& record) {
  const uint32_t original = edges_[find_edge(p, id)].to;
  if (states_[original].length == states_[p].length + 1) return original;
  // Split the state (a set of token strings that end at the same positions): its shorter strings end at the new
  // position too, its longer ones do not.
  const auto copy = static_cast<uint32_t>(states_.size());
  states_.push_back({states_[p].length + 1, states_[original].link, states_[original].last_end, kNone});
  for (uint32_t e = states_[original].first_edge; e != kNone; e = edges_[e].next) {
    add_edge(copy, edges_[e].id, edges_[e].to);
  }
  states_[original].link = copy;
  record.split_from = p;
  record.copy = copy;
  record.original = original;
  for (; p != kNone; p = states_[p].link) {
    const uint32_t e = find_edge(p, id);
    if (edges_[e].to != original) break;
    edges_[e].to = copy;
  }
  return copy;
}

void RepeatIndex::advance_end(TokenId id) {
  // If the end state was just split, both states that resulted have this edge.
  end_state_ = edges_[find_edge(end_state_, id)].to;
  if (++end_length_ > kMaxMatch + 1) {
    end_length_ = kMaxMatch + 1;
    if (const uint32_t link = states_[end_state_].link; states_[link].length >= end_length_) end_state_ = link;
  }
  const auto here = static_cast<uint32_t>(ids_.size() - 1);
  for (uint32_t v = end_state_; v != 0; v = states_[v].link) {
    ++n_steps_;
    end_changes_.push_back({v, states_[v].last_end});
    states_[v].last_end = here;
  }
}

void RepeatIndex::truncate(size_t n) {
  CHECK_LE(n, size());
  while (size() > n) undo_last();
}

void RepeatIndex::undo_last() {
  const Record record = records_.back();
  records_.pop_back();
  const TokenId id = ids_.back();
  ids_.pop_back();
  for (; end_changes_.size() > record.n_end_changes; end_changes_.pop_back()) {
    ++n_steps_;
    states_[end_changes_.back().state].last_end = end_changes_.back().last_end;
  }
  end_state_ = record.end_state;
  end_length_ = record.end_length;
  if (record.copy != kNone) {
    for (uint32_t p = record.split_from; p != kNone; p = states_[p].link) {
      const uint32_t e = find_edge(p, id);
      if (e == kNone || edges_[e].to != record.copy) break;
      edges_[e].to = record.original;
    }
    states_[record.original].link = states_[record.copy].link;
  }
  for (; edges_.size() > record.n_edges; edges_.pop_back()) {
    ++n_steps_;
    const Edge& edge = edges_.back();
    states_[edge.from].first_edge = edge.next;
    edge_of_.erase(edge_key(edge.from, edge.id));
  }
  states_.resize(record.state);
}

void RepeatIndex::find(size_t min_length, size_t max_length, size_t window, std::vector<Repeat>& out) const {
  out.clear();
  const size_t begin = saturating_sub(ids_.size(), window);  // start of the window
  const size_t cap = std::min({max_length, kMaxMatch, ids_.size()});
  for (uint32_t v = end_state_; v != 0; v = states_[v].link) {
    ++n_steps_;
    // Shorter strings of the same state match too, but the same tokens follow them, so the longest string suffices.
    const size_t length = std::min<size_t>(states_[v].length, cap);
    if (length < min_length) break;
    // The linked state, of shorter strings, also matches `cap` tokens and has all edges of this state, so it suffices.
    if (states_[states_[v].link].length >= cap) continue;
    for (uint32_t e = states_[v].first_edge; e != kNone; e = edges_[e].next) {
      ++n_steps_;
      const size_t place = states_[edges_[e].to].last_end;  // position of the token after the match
      const size_t inside = std::min(length, saturating_sub(place, begin));
      if (inside >= min_length) out.push_back({edges_[e].id, inside});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Repeat& a, const Repeat& b) { return a.id != b.id ? a.id < b.id : a.length > b.length; });
  const auto same = [](const Repeat& a, const Repeat& b) { return a.id == b.id; };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
}

void TokenHistory::keep(size_t window, bool repeats) {
  if (window != window_) {
    window_ = window;
    recent_.clear();
    for (size_t i = window_begin(); i < size(); ++i) add(recent_, ids_[i]);
  }
  if (!repeats && keeps_repeats_) {
    n_steps_ += repeats_.n_steps();
    repeats_ = RepeatIndex();
  }
  keeps_repeats_ = repeats;
  if (!repeats) return;
  for (size_t i = repeats_.size(); i < size(); ++i) repeats_.append(ids_[i]);
}

void TokenHistory::append(TokenSpan ids) {
  for (const TokenId id : ids) {
    // If the window is full, its oldest token leaves the window.
    if (window_ > 0 && window_ <= size()) remove(recent_, ids_[window_begin()]);
    if (window_ > 0) add(recent_, id);
    ids_.push_back(id);
    if (keeps_repeats_) repeats_.append(id);
  }
}

void TokenHistory::begin_answer() {
  answer_begin_ = size();
  answer_.clear();
}

void TokenHistory::push(TokenId id) {
  append({&id, 1});
  add(answer_, id);
}

void TokenHistory::truncate(size_t n) {
  CHECK_LE(n, size());
  const size_t old_begin = window_begin(), old_size = size();
  for (size_t i = std::max(n, answer_begin_); i < old_size; ++i) remove(answer_, ids_[i]);
  answer_begin_ = std::min(answer_begin_, n);
  if (window_ > 0) {
    for (size_t i = std::max(n, old_begin); i < old_size; ++i) remove(recent_, ids_[i]);
  }
  ids_.resize(n);
  // Count the tokens that are in the window again.
  for (size_t i = window_begin(); i < std::min(old_begin, n); ++i) add(recent_, ids_[i]);
  if (keeps_repeats_) repeats_.truncate(n);
}

void TokenHistory::add(Counts& counts, TokenId id) {
  ++n_steps_;
  ++counts[id];
}

void TokenHistory::remove(Counts& counts, TokenId id) {
  ++n_steps_;
  const auto found = counts.find(id);
  CHECK(found != counts.end()) << "id " << id << " was not counted";
  if (--found->second == 0) counts.erase(found);
}

}  // namespace ibid
