#include "templates/reply/marker_parser.h"

#include <algorithm>
#include <utility>

#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

// Maximum number of bytes that are scanned again because a text that begins like a call is not a call. After these,
// calls are not recognized any more, so that the time stays linear in the answer.
constexpr size_t kMaxWasted = 1 << 20;

// Returns the spaces after a marker that are content: those after the last line break; none without line break.
std::string_view spaces_after_marker(std::string_view spaces) {
  const size_t line = spaces.find_last_of('\n');
  return line == spaces.npos ? std::string_view() : spaces.substr(line + 1);
}

size_t n_trailing_spaces(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_marker_space(text[text.size() - 1 - n])) ++n;
  return n;
}

// Returns whether `text` begins with `end`, the end of the turn. It counts only if nothing but a few spaces follows it.
WordMatch match_end_of_turn(std::string_view text, std::string_view end, bool at_end) {
  constexpr size_t kMaxSpaces = 64;
  if (end.empty() || end.front() != text.front()) return WordMatch::kNo;
  const WordMatch there = match_marker(text, end);
  if (there == WordMatch::kMore) return at_end ? WordMatch::kNo : there;
  if (there == WordMatch::kNo || text.size() > end.size() + kMaxSpaces) return WordMatch::kNo;
  if (!trim_marker_spaces(text.substr(end.size())).empty()) return WordMatch::kNo;
  return at_end ? WordMatch::kYes : WordMatch::kMore;
}

// True if the marker has a tag. Markers without a tag are words that content may have as well.
bool has_tag(std::string_view marker) { return marker.find_first_of("<[") != marker.npos; }

}  // namespace

MarkerParser::MarkerParser(const ReplyFormat& format, OfferedTools tools, bool begins_inside,
                           const ReplyContext& context)
    : format_(format),
      tools_(std::move(tools)),
      streams_(context.stream_calls),
      where_(begins_inside ? Where::kReasoning : Where::kContent),
      takes_calls_(format.calls.has_value() && !tools_.empty()),
      discards_incomplete_call_(context.demands_call) {
  if (format_.reasoning) reasoning_tag_ = special_tag_of(format_.reasoning->begin);
  if (takes_calls_) markers_.emplace(*format_.calls);
}

void MarkerParser::feed(std::string_view text, ReplyOutput& out) {
  held_ += text;
  while (step(out)) continue;
  if (begin_ > held_.size() / 2) {
    held_.erase(0, begin_);
    begin_ = 0;
  }
}

void MarkerParser::finish(ReplyOutput& out) {
  at_end_ = true;
  while (step(out)) continue;
}

bool MarkerParser::step(ReplyOutput& out) {
  switch (where_) {
    case Where::kContent: return in_content(out);
    case Where::kReasoning: return in_reasoning(out);
    case Where::kCall: return in_call(out);
    case Where::kAfterCall: return after_call();
    case Where::kAfterCallInReasoning: return after_call_in_reasoning(out);
    case Where::kUnmarkedCalls: return in_unmarked_calls(out);
  }
  return false;
}

void MarkerParser::drop(size_t n) {
  begin_ += n;
  n_scanned_ = 0;
  scanned_non_space_ = false;
}

// Emits content, after the spaces before it. Spaces at its end are held back, because a marker may follow.
void MarkerParser::emit_content(std::string_view text, ReplyOutput& out) {
  const size_t n_spaces = n_trailing_spaces(text);
  const std::string_view solid = text.substr(0, text.size() - n_spaces);
  if (!solid.empty()) {
    if (!content_emitted_ && after_marker_) {
      const std::string all = spaces_ + std::string(solid);
      const size_t n_leading = all.find_first_not_of(" \n\t\r");
      out.content(spaces_after_marker(std::string_view(all).substr(0, n_leading)));
      out.content(std::string_view(all).substr(n_leading));
    } else {
      out.content(spaces_);
      out.content(solid);
    }
    spaces_.clear();
    content_emitted_ = true;
    after_marker_ = false;
  }
  spaces_ += text.substr(text.size() - n_spaces);
}

// Looks for a marker at held()[at]. is_first: no content but spaces precedes it.
MarkerParser::Found MarkerParser::marker_at(size_t at, bool is_first) const {
  const std::string_view text = held().substr(at);
  Found found{Marker::kNone, at, 0};
  const auto look = [&](std::string_view word, Marker marker) {
    if (found.length > 0 || word.empty() || word.front() != text.front()) return;
    const WordMatch there = match_marker(text, word);
    if (there == WordMatch::kMore && !at_end_) found.marker = Marker::kUnsure;
    if (there == WordMatch::kMore && at_end_ && discards_incomplete_call_) found = {Marker::kDropped, at, text.size()};
    if (there == WordMatch::kYes) found = {marker, at, word.size()};
  };
  // Reasoning between special tokens may come anywhere, other reasoning only at the beginning.
  if (format_.reasoning && (is_first || is_special_token(format_.reasoning->end))) {
    look(format_.reasoning->begin, Marker::kReasoning);
    // Do not take the tag alone for the marker, because the other words of the marker may still arrive.
    if (found.marker == Marker::kUnsure) return found;
    look(reasoning_tag_, Marker::kReasoning);
  }
  if (format_.reasoning && is_first && has_tag(format_.reasoning->end)) {
    look(format_.reasoning->end, Marker::kEndOfReasoning);
  }
  if (is_first) look(format_.content_begin, Marker::kWrapper);
  if (in_wrapper_) look(format_.content_end, Marker::kWrapper);
  if (found.marker == Marker::kUnsure) return found;
  size_t length = 0;
  const WordMatch call = found.length > 0 ? WordMatch::kNo : call_there(text, is_first, length);
  if (call == WordMatch::kYes) found = {Marker::kCall, at, length};
  if (call == WordMatch::kMore && !at_end_) found.marker = Marker::kUnsure;
  if (call == WordMatch::kMore && at_end_ && discards_incomplete_call_) found = {Marker::kCall, at, text.size()};
  if (found.marker == Marker::kUnsure) return found;  // a longer marker may still be completed, so use no shorter one
  for (const std::string& word : format_.dropped) look(word, Marker::kDropped);
  const WordMatch turn = found.length > 0 ? WordMatch::kNo : match_end_of_turn(text, format_.end_of_turn, at_end_);
  if (turn == WordMatch::kMore) found.marker = Marker::kUnsure;
  if (turn == WordMatch::kYes) found = {Marker::kDropped, at, text.size()};
  const bool possible = is_first && takes_calls_ && !call_emitted_ && may_be_unmarked_calls_;
  if (possible && found.marker == Marker::kNone && UnmarkedCalls::may_begin(text))
    found.marker = Marker::kUnmarkedCalls;
  return found;
}

MarkerParser::Found MarkerParser::find_marker() {
  for (; n_scanned_ < held().size(); ++n_scanned_) {
    const Found found = marker_at(n_scanned_, !content_emitted_ && !scanned_non_space_);
    if (found.marker != Marker::kNone) return found;
    scanned_non_space_ |= !is_marker_space(held()[n_scanned_]);
  }
  return {Marker::kNone, held().size(), 0};
}

bool MarkerParser::in_content(ReplyOutput& out) {
  const Found found = find_marker();
  if (found.begin > 0) {
    emit_content(held().substr(0, found.begin), out);
    drop(found.begin);
  }
  switch (found.marker) {
    case Marker::kUnsure: return false;
    case Marker::kNone:
      if (at_end_ && !after_marker_) out.content(std::exchange(spaces_, {}));
      return false;
    case Marker::kCall: begin_call(0, found.length); return true;
    case Marker::kUnmarkedCalls:
      unmarked_calls_.emplace(*format_.calls, tools_);
      where_ = Where::kUnmarkedCalls;
      return true;
    case Marker::kDropped: drop(found.length); return true;
    case Marker::kReasoning: where_ = Where::kReasoning; break;
    case Marker::kEndOfReasoning: break;  // the model closes reasoning that it did not open: skip the marker
    case Marker::kWrapper: in_wrapper_ = !in_wrapper_; break;
  }
  drop(found.length);
  spaces_.clear();
  after_marker_ = true;
  return true;
}

bool MarkerParser::in_unmarked_calls(ReplyOutput& out) {
  const UnmarkedCalls::State state = unmarked_calls_->read(held(), at_end_);
  if (state == UnmarkedCalls::State::kOpen) return false;
  where_ = Where::kContent;
  may_be_unmarked_calls_ = false;
  if (state == UnmarkedCalls::State::kDone) {
    for (const ParsedCall& call : unmarked_calls_->calls()) out.complete_call(call);
    drop(held().size());
    spaces_.clear();
    after_marker_ = true;
  }
  unmarked_calls_.reset();
  return true;
}

// If the prompt already has the marker that opens the reasoning, skips the same marker in the answer, because models
// repeat it. Returns false if more text is needed.
bool MarkerParser::skip_repeated_begin() {
  while (!reasoning_emitted_) {
    size_t at = 0;
    while (at < held().size() && is_marker_space(held()[at])) ++at;
    const WordMatch there = match_marker(held().substr(at), format_.reasoning->begin);
    if (there != WordMatch::kYes) return there == WordMatch::kNo || at_end_;
    drop(at + format_.reasoning->begin.size());
  }
  return true;
}

// Finds the end of the reasoning, or a call inside the reasoning.
MarkerParser::Found MarkerParser::find_in_reasoning() {
  const std::string_view end = format_.reasoning->end;
  for (; n_scanned_ < held().size(); ++n_scanned_) {
    const std::string_view text = held().substr(n_scanned_);
    const WordMatch there = end.front() == text.front() ? match_marker(text, end) : WordMatch::kNo;
    if (there == WordMatch::kYes) return {Marker::kEndOfReasoning, n_scanned_, end.size()};
    // The beginning of the content ends the reasoning, too.
    const bool may_be_content =
        is_special_token(format_.content_begin) && format_.content_begin.front() == text.front();
    const WordMatch content = may_be_content ? match_marker(text, format_.content_begin) : WordMatch::kNo;
    if (content == WordMatch::kYes) return {Marker::kWrapper, n_scanned_, 0};
    if (content == WordMatch::kMore && !at_end_) return {Marker::kUnsure, n_scanned_, 0};
    size_t length = 0;
    const WordMatch call = reasoning_is_closed_ ? WordMatch::kNo : call_there(text, false, length);
    if (call == WordMatch::kYes) return {Marker::kCall, n_scanned_, length};
    if (!at_end_ && (there == WordMatch::kMore || call == WordMatch::kMore)) return {Marker::kUnsure, n_scanned_, 0};
  }
  return {Marker::kNone, held().size(), 0};
}

void MarkerParser::end_reasoning() {
  reasoning_spaces_.clear();
  reasoning_emitted_ = false;
  reasoning_is_closed_ = false;
  after_marker_ = true;
  where_ = Where::kContent;
}

bool MarkerParser::in_reasoning(ReplyOutput& out) {
  if (!skip_repeated_begin()) return false;
  const Found found = find_in_reasoning();
  emit_reasoning(held().substr(0, found.begin), out);
  drop(found.begin);
  if (found.marker == Marker::kCall) {
    in_reasoning_ = true;
    begin_call(0, found.length);
    return true;
  }
  if (found.marker == Marker::kEndOfReasoning || found.marker == Marker::kWrapper) {
    drop(found.length);
    end_reasoning();
    return true;
  }
  if (at_end_ && reasoning_emitted_) out.reasoning(std::exchange(reasoning_spaces_, {}));
  return false;
}

// Decides on a complete call inside reasoning, usually at the end of the answer. The call ends the reasoning, unless
// the model closes the reasoning after the call and writes more text.
bool MarkerParser::after_call_in_reasoning(ReplyOutput& out) {
  const std::string_view end = format_.reasoning->end;
  const size_t found = held().find(end, searched_to_);
  if (found == held().npos) {
    if (held().size() > searched_to_ + end.size() - 1) searched_to_ = held().size() - (end.size() - 1);
    if (!at_end_) return false;
  } else {
    searched_to_ = found;
    const bool goes_on = !trim_marker_spaces(held().substr(found + end.size())).empty();
    if (!goes_on && !at_end_) return false;
    if (goes_on) {
      reasoning_is_closed_ = true;
      fail_call(out);
      return true;
    }
    held_.resize(begin_ + found);
  }
  in_reasoning_ = false;
  end_reasoning();
  end_call(out);
  return true;
}

void MarkerParser::emit_reasoning(std::string_view text, ReplyOutput& out) {
  const size_t n_spaces = n_trailing_spaces(text);
  const std::string_view solid = text.substr(0, text.size() - n_spaces);
  if (!solid.empty()) {
    const std::string all = std::exchange(reasoning_spaces_, {}) + std::string(solid);
    const size_t n_leading = std::exchange(reasoning_emitted_, true) ? 0 : all.find_first_not_of(" \n\t\r");
    out.reasoning(spaces_after_marker(std::string_view(all).substr(0, n_leading)));
    out.reasoning(std::string_view(all).substr(n_leading));
  }
  reasoning_spaces_ += text.substr(text.size() - n_spaces);
}

void MarkerParser::begin_call(size_t first_step, size_t n_marker) {
  reader_.emplace(markers_->steps(), tools_, first_step_at(markers_->steps(), held(), first_step));
  n_marker_ = n_marker;
  where_ = Where::kCall;
}

void MarkerParser::emit_call_so_far(ReplyOutput& out) const {
  if (!streams_ || in_reasoning_) return;
  const std::string_view arguments = reader_->arguments_so_far(held());
  if (!out.in_call() && !arguments.empty()) out.begin_call(reader_->name(), reader_->early_id());
  if (out.in_call()) out.arguments(arguments.substr(out.n_argument_bytes()));
}

bool MarkerParser::in_call(ReplyOutput& out) {
  CallReader::State state = reader_->read(held(), false);
  const bool is_cut = at_end_ && state == CallReader::State::kOpen;
  if (is_cut) state = reader_->read(held(), true);
  emit_call_so_far(out);
  if (state == CallReader::State::kOpen) return false;
  if (state == CallReader::State::kBad && is_cut && discards_incomplete_call_) {
    if (out.in_call()) out.break_call();
    drop(held().size());
    spaces_.clear();
    reader_.reset();
    in_reasoning_ = false;
    where_ = Where::kContent;
    after_marker_ = true;
    return true;
  }
  if (state == CallReader::State::kBad) {
    fail_call(out);
  } else if (in_reasoning_) {
    searched_to_ = reader_->n_taken();
    where_ = Where::kAfterCallInReasoning;
  } else {
    end_call(out);
  }
  return true;
}

void MarkerParser::end_call(ReplyOutput& out) {
  out.complete_call(reader_->call(held()));
  drop(reader_->n_taken());
  reader_.reset();
  call_emitted_ = true;
  spaces_.clear();
  after_marker_ = true;
  where_ = Where::kAfterCall;
}

// Ends an attempt to parse a call. The word that began the call becomes content or reasoning, and the rest of the text
// is scanned again.
void MarkerParser::fail_call(ReplyOutput& out) {
  if (out.in_call()) out.break_call();
  n_wasted_ += reader_->n_taken();
  if (n_wasted_ > kMaxWasted) takes_calls_ = false;
  reader_.reset();
  // The call has no marker before its JSON and begins the answer, so the whole answer may still consist of such calls.
  if (n_marker_ == 1 && !in_reasoning_ && !call_emitted_ && may_be_unmarked_calls_ && takes_calls_) {
    unmarked_calls_.emplace(*format_.calls, tools_);
    where_ = Where::kUnmarkedCalls;
    return;
  }
  const size_t n = std::min(n_marker_, held().size());
  const std::string_view text = held().substr(0, n);
  where_ = in_reasoning_ ? Where::kReasoning : Where::kContent;
  if (std::exchange(in_reasoning_, false)) {
    emit_reasoning(text, out);
  } else {
    emit_content(text, out);
  }
  drop(n);
}

// Handles the text after a call: another call, the end of the section, or content.
bool MarkerParser::after_call() {
  size_t length = 0;
  const WordMatch end = markers_->section_end(held(), length);
  if (end == WordMatch::kYes || (end == WordMatch::kMore && at_end_)) {
    drop(end == WordMatch::kYes ? length : held().size());  // an answer may end inside the marker that ends the section
    where_ = Where::kContent;
    return true;
  }
  if (end == WordMatch::kMore) return false;
  if (const WordMatch again = markers_->end_of_call(held(), length); again != WordMatch::kNo) {
    if (again == WordMatch::kMore && !at_end_) return false;
    drop(again == WordMatch::kYes ? length : held().size());
    return again == WordMatch::kYes;
  }
  size_t begin = 0, n_word = 0;
  WordMatch next = markers_->separator(held(), begin);
  if (next == WordMatch::kYes) next = markers_->next_call(held().substr(begin), n_word);
  if (next == WordMatch::kYes && takes_calls_) {
    spaces_ += held().substr(0, begin);
    drop(begin);
    begin_call(markers_->steps().n_opening, n_word);
    return true;
  }
  if (!at_end_ && next == WordMatch::kMore) return false;
  where_ = Where::kContent;
  return true;
}

}  // namespace ibid
