#include "templates/reply/marker_parser.h"

#include <algorithm>
#include <utility>

#include "base/json_limits.h"
#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

// Maximum number of bytes scanned again because a text that begins like a call is not one. After that, calls are not
// recognized any more, so that the time stays linear.
constexpr size_t kMaxWasted = 1 << 20;

// True for a trigger of one ordinary character, which begins a call only at the beginning of an answer.
bool is_plain(const std::string& trigger) { return trigger.size() == 1; }

// Returns the spaces after a marker that are content: if there are line breaks, only those of the last line.
std::string_view behind_marker(std::string_view spaces) {
  const size_t line = spaces.find_last_of('\n');
  return line == spaces.npos ? std::string_view() : spaces.substr(line + 1);
}

size_t n_trailing_spaces(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_marker_space(text[text.size() - 1 - n])) ++n;
  return n;
}

}  // namespace

MarkerParser::MarkerParser(const ReplyFormat& format, OfferedTools tools, bool begins_inside, bool stream_calls)
    : format_(format),
      tools_(std::move(tools)),
      streams_(stream_calls),
      where_(begins_inside ? Where::kReasoning : Where::kContent),
      takes_calls_(format.calls.has_value() && !tools_.empty()) {
  if (takes_calls_) steps_ = make_call_steps(*format_.calls);
}

MarkerParser::There MarkerParser::is_there(std::string_view text, std::string_view marker) {
  if (text.starts_with(marker)) return There::kYes;
  return marker.starts_with(text) ? There::kUnsure : There::kNo;
}

MarkerParser::There MarkerParser::words_there(std::string_view text, const std::vector<std::string>& words,
                                              size_t& length) {
  size_t at = 0;
  for (const std::string& word : words) {
    while (at < text.size() && is_marker_space(text[at])) ++at;
    const There one = is_there(text.substr(at), word);
    if (one != There::kYes) return one;
    at += word.size();
  }
  length = at;
  return There::kYes;
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
    case Where::kBehindCall: return behind_call();
  }
  return false;
}

void MarkerParser::drop(size_t n) {
  begin_ += n;
  looked_ = 0;
  looked_solid_ = false;
}

// Emits content and the spaces before it. Spaces at its end are held back, because a marker may follow.
void MarkerParser::say(std::string_view text, ReplyOutput& out) {
  const size_t n_spaces = n_trailing_spaces(text);
  const std::string_view solid = text.substr(0, text.size() - n_spaces);
  if (!solid.empty()) {
    if (!said_ && behind_marker_) {
      const std::string all = spaces_ + std::string(solid);
      const size_t n_leading = all.find_first_not_of(" \n\t\r");
      out.content(behind_marker(std::string_view(all).substr(0, n_leading)));
      out.content(std::string_view(all).substr(n_leading));
    } else {
      out.content(spaces_);
      out.content(solid);
    }
    spaces_.clear();
    said_ = true;
    behind_marker_ = false;
  }
  spaces_ += text.substr(text.size() - n_spaces);
}

// Looks for a marker at held()[at]. is_first: only spaces were emitted so far.
MarkerParser::Found MarkerParser::marker_at(size_t at, bool is_first) const {
  const std::string_view text = held().substr(at);
  Found found{Marker::kNone, at, 0};
  const auto look = [&](const std::string& word, Marker marker) {
    if (found.length > 0 || word.empty() || word.front() != text.front()) return;
    const There there = is_there(text, word);
    if (there == There::kUnsure && !at_end_) found.marker = Marker::kUnsure;
    if (there == There::kYes) found = {marker, at, word.size()};
  };
  if (is_first && format_.reasoning) look(format_.reasoning->begin, Marker::kReasoning);
  if (takes_calls_) {
    for (const std::string& trigger : format_.calls->triggers) {
      if (!is_plain(trigger) || is_first) look(trigger, Marker::kCall);
    }
  }
  if (is_first) look(format_.content_begin, Marker::kWrapper);
  if (in_wrapper_) look(format_.content_end, Marker::kWrapper);
  return found;
}

MarkerParser::Found MarkerParser::find_marker() {
  for (; looked_ < held().size(); ++looked_) {
    const Found found = marker_at(looked_, !said_ && !looked_solid_);
    if (found.marker != Marker::kNone) return found;
    looked_solid_ |= !is_marker_space(held()[looked_]);
  }
  return {Marker::kNone, held().size(), 0};
}

bool MarkerParser::in_content(ReplyOutput& out) {
  const Found found = find_marker();
  if (found.begin > 0) {
    say(held().substr(0, found.begin), out);
    drop(found.begin);
  }
  switch (found.marker) {
    case Marker::kUnsure: return false;
    case Marker::kNone:
      if (at_end_ && !behind_marker_) out.content(std::exchange(spaces_, {}));
      return false;
    case Marker::kCall: begin_call(0, found.length); return true;
    case Marker::kReasoning: where_ = Where::kReasoning; break;
    case Marker::kWrapper: in_wrapper_ = !in_wrapper_; break;
  }
  drop(found.length);
  spaces_.clear();
  behind_marker_ = true;
  return true;
}

bool MarkerParser::in_reasoning(ReplyOutput& out) {
  const std::string_view end = format_.reasoning->end;
  if (!reasoning_said_) {  // the prompt opened the reasoning, and the model repeats the marker
    size_t at = 0;
    while (at < held().size() && is_marker_space(held()[at])) ++at;
    const There there = is_there(held().substr(at), format_.reasoning->begin);
    if (there == There::kYes) return drop(at + format_.reasoning->begin.size()), true;
    if (there == There::kUnsure && !at_end_) return false;
  }
  const size_t found = held().find(end);
  const std::string_view thought = held().substr(0, found == held().npos ? held().size() - n_unsure(end) : found);
  think(thought, out);
  drop(thought.size());
  if (found == held().npos) {
    if (at_end_ && reasoning_said_) out.reasoning(std::exchange(reasoning_spaces_, {}));
    return false;
  }
  drop(end.size());
  reasoning_spaces_.clear();
  reasoning_said_ = false;
  behind_marker_ = true;
  where_ = Where::kContent;
  return true;
}

// Number of bytes at the end of the held text that may begin the marker.
size_t MarkerParser::n_unsure(std::string_view marker) const {
  if (at_end_) return 0;
  size_t n = std::min(marker.size() - 1, held().size());
  while (n > 0 && !marker.starts_with(held().substr(held().size() - n))) --n;
  return n;
}

void MarkerParser::think(std::string_view text, ReplyOutput& out) {
  const size_t n_spaces = n_trailing_spaces(text);
  const std::string_view solid = text.substr(0, text.size() - n_spaces);
  if (!solid.empty()) {
    const std::string all = std::exchange(reasoning_spaces_, {}) + std::string(solid);
    const size_t n_leading = std::exchange(reasoning_said_, true) ? 0 : all.find_first_not_of(" \n\t\r");
    out.reasoning(behind_marker(std::string_view(all).substr(0, n_leading)));
    out.reasoning(std::string_view(all).substr(n_leading));
  }
  reasoning_spaces_ += text.substr(text.size() - n_spaces);
}

void MarkerParser::begin_call(size_t first_step, size_t n_marker) {
  // The model may write the call's own tag without the opening of the section.
  const bool no_opening = first_step == 0 && steps_.n_opening > 0 && !held().starts_with(steps_.steps.front().word);
  reader_.emplace(steps_, tools_, no_opening ? steps_.n_opening : first_step);
  n_marker_ = n_marker;
  where_ = Where::kCall;
}

void MarkerParser::tell_call_so_far(ReplyOutput& out) const {
  if (!streams_) return;
  const std::string_view arguments = reader_->arguments_so_far(held());
  if (!out.in_call() && !arguments.empty()) out.begin_call(reader_->name(), reader_->early_id());
  if (out.in_call()) out.arguments(arguments.substr(out.n_argument_bytes()));
}

bool MarkerParser::in_call(ReplyOutput& out) {
  const CallReader::State state = reader_->read(held(), at_end_);
  tell_call_so_far(out);
  if (state == CallReader::State::kOpen) return false;
  if (state == CallReader::State::kBad) {
    fail_call(out);
    return true;
  }
  out.complete_call(reader_->call(held()));
  drop(reader_->n_taken());
  reader_.reset();
  spaces_.clear();
  behind_marker_ = true;
  where_ = Where::kBehindCall;
  return true;
}

// Ends an attempt to parse a call: its first word becomes content, and the rest is scanned again.
void MarkerParser::fail_call(ReplyOutput& out) {
  if (out.in_call()) out.break_call();
  n_wasted_ += reader_->n_taken();
  if (n_wasted_ > kMaxWasted) takes_calls_ = false;
  reader_.reset();
  const size_t n = std::min(n_marker_, held().size());
  say(held().substr(0, n), out);
  drop(n);
  where_ = Where::kContent;
}

MarkerParser::There MarkerParser::next_call_there(std::string_view text, size_t& length) const {
  There there = There::kNo;
  for (size_t i = steps_.n_opening; i < steps_.steps.size(); ++i) {
    const CallStep& begin = steps_.steps[i];
    const std::string_view word = begin.kind == CallStep::Kind::kEnvelope ? std::string_view("{") : begin.word;
    const There one = is_there(text, word);
    if (one == There::kYes) {
      length = std::max<size_t>(word.size(), 1);
      return text.empty() ? There::kUnsure : There::kYes;
    }
    if (one == There::kUnsure) there = There::kUnsure;
    if (begin.n_optional == 0) break;
  }
  return there;
}

// Expects another call, the end of the section, or content.
bool MarkerParser::behind_call() {
  size_t length = 0;
  const There end = steps_.section_end.empty() ? There::kNo : words_there(held(), steps_.section_end, length);
  if (end == There::kYes) {
    drop(length);
    where_ = Where::kContent;
    return true;
  }
  There next = words_there(held(), steps_.separator, length);
  size_t begin = length, n_word = 0;
  if (next == There::kYes) {
    while (begin < held().size() && is_marker_space(held()[begin])) ++begin;
    next = next_call_there(held().substr(begin), n_word);
  }
  if (next == There::kYes && takes_calls_) {
    spaces_ += held().substr(0, begin);
    drop(begin);
    begin_call(steps_.n_opening, n_word);
    return true;
  }
  if (!at_end_ && (end == There::kUnsure || next == There::kUnsure)) return false;
  if (end == There::kUnsure) drop(held().size());  // the answer ended inside a marker
  where_ = Where::kContent;
  return true;
}

namespace {

// Maximum length of a header, which has a few words. Text without a header is content.
constexpr size_t kMaxHeaderBytes = 400;

// Number of bytes at the end of `text` that may be the beginning of the marker.
size_t n_begins(std::string_view text, std::string_view marker) {
  size_t n = marker.empty() ? 0 : std::min(marker.size() - 1, text.size());
  while (n > 0 && !marker.starts_with(text.substr(text.size() - n))) --n;
  return n;
}

// Length of `text` without its trailing spaces.
size_t n_without_end_spaces(std::string_view text) {
  while (!text.empty() && is_marker_space(text.back())) text.remove_suffix(1);
  return text.size();
}

}  // namespace

ChannelParser::ChannelParser(const ChannelSyntax& syntax, OfferedTools tools, bool stream_calls)
    : syntax_(syntax), tools_(std::move(tools)), streams_(stream_calls) {}

void ChannelParser::feed(std::string_view text, ReplyOutput& out) {
  held_ += text;
  for (bool goes_on = true; goes_on;) {
    goes_on = where_ == Where::kHeader ? in_header(out) : where_ == Where::kBody ? in_body(out) : between(out);
  }
  if (begin_ > held_.size() / 2) {
    held_.erase(0, begin_);
    begin_ = 0;
  }
}

void ChannelParser::finish(ReplyOutput& out) {
  at_end_ = true;
  feed({}, out);
  if (where_ == Where::kBody) end_body(out);
  if (where_ == Where::kHeader) say(opening_ + std::string(held()), out);
}

bool ChannelParser::in_header(ReplyOutput& out) {
  const size_t end = held().substr(0, kMaxHeaderBytes + syntax_.body_begin.size()).find(syntax_.body_begin);
  if (end == held().npos) {
    if (held().size() < kMaxHeaderBytes + syntax_.body_begin.size()) return false;
    header_.clear();
    body_ = Body::kContent;
    where_ = Where::kBody;
    say(std::exchange(opening_, {}), out);
    return true;
  }
  header_ = held().substr(0, end);
  opening_ += header_ + syntax_.body_begin;
  drop(end + syntax_.body_begin.size());
  begin_body(out);
  return true;
}

std::string_view ChannelParser::word_behind(std::string_view marker) const {
  const size_t at = header_.find(marker);
  if (at == std::string::npos) return {};
  const std::string_view rest = std::string_view(header_).substr(at + marker.size());
  return rest.substr(0, rest.find_first_of(" \n\t\r<"));
}

void ChannelParser::begin_body(ReplyOutput& out) {
  where_ = Where::kBody;
  body_ = Body::kContent;
  tool_ = word_behind(syntax_.recipient);
  const std::string_view channel = word_behind(syntax_.channel);
  // The kind of recipient ("functions.") may be missing or another one: then the whole word after "to=" is the name.
  const std::string any_recipient = syntax_.recipient.substr(0, syntax_.recipient.find('=') + 1);
  if (tool_.empty()) tool_ = word_behind(any_recipient);
  if (!tool_.empty() && tools_.has(tool_)) {
    body_ = Body::kCall;
    call_.clear();
    json_.emplace();
  } else if (!tool_.empty()) {
    say(opening_, out);  // the call's recipient is unknown
  } else if (std::find(syntax_.reasoning_channels.begin(), syntax_.reasoning_channels.end(), channel) !=
             syntax_.reasoning_channels.end()) {
    body_ = Body::kReasoning;
    if (std::exchange(thought_, true)) out.reasoning("\n");
  } else if (said_) {
    out.content("\n");
  }
}

ChannelParser::Ending ChannelParser::find_ending() const {
  Ending first{held().size(), 0, false};
  const auto look = [&](const std::string& marker, bool begins_message) {
    if (marker.empty()) return;
    const size_t at = held().find(marker);
    if (at < first.begin || (at == first.begin && marker.size() > first.length)) {
      first = {at, marker.size(), begins_message};
    }
  };
  for (const std::string& end : syntax_.ends) look(end, false);
  look(syntax_.begin, true);
  if (first.length > 0 || at_end_) return first;
  size_t n_unsure = n_begins(held(), syntax_.begin);
  for (const std::string& end : syntax_.ends) n_unsure = std::max(n_unsure, n_begins(held(), end));
  first.begin -= n_unsure;
  return first;
}

bool ChannelParser::in_body(ReplyOutput& out) {
  const Ending ending = find_ending();
  take_body(held().substr(0, ending.begin), out);
  drop(ending.begin);
  if (ending.length == 0) return false;
  end_body(out);
  opening_.clear();
  if (ending.begins_message) opening_ = held().substr(0, ending.length);
  drop(ending.length);
  where_ = ending.begins_message ? Where::kHeader : Where::kBetween;
  return true;
}

void ChannelParser::say(std::string_view text, ReplyOutput& out) {
  out.content(text);
  said_ |= !text.empty();
}

void ChannelParser::take_body(std::string_view text, ReplyOutput& out) {
  if (body_ == Body::kReasoning) return out.reasoning(text);
  if (body_ == Body::kContent) return say(text, out);
  std::string json;
  for (const char c : text) {
    if (json_->state() != JsonScanner::State::kOpen) break;
    if (json_->n_taken() == 0 && is_marker_space(c)) continue;
    if (json_->push(c) != JsonScanner::State::kBad) json += c;
  }
  call_ += text;
  if (!streams_ || json.empty()) return;
  if (!out.in_call()) out.begin_call(tool_, {});
  out.arguments(json);
}

void ChannelParser::end_body(ReplyOutput& out) {
  if (body_ != Body::kCall) return;
  const std::string_view arguments = trim_marker_spaces(call_);
  const Result<Json> value = parse_json(arguments, "arguments of a call");
  if (value.ok() && value->is_object()) {
    out.complete_call({{}, tool_, std::string(arguments)});
  } else {
    if (out.in_call()) out.break_call();
    say(opening_ + call_, out);
  }
  body_ = Body::kContent;
}

bool ChannelParser::between(ReplyOutput& out) {
  const size_t at = held().find(syntax_.begin);
  const size_t n_unsure = at == held().npos && !at_end_ ? n_begins(held(), syntax_.begin) : 0;
  const std::string_view text = held().substr(0, std::min(at, held().size() - n_unsure));
  // Between messages only spaces are expected. Other text is content, including the spaces before it.
  const size_t n_completion_tokens = n_without_end_spaces(text);
  if (n_completion_tokens > 0) {
    spaces_ += text.substr(0, n_completion_tokens);
    say(std::exchange(spaces_, {}), out);
  }
  spaces_ += text.substr(n_completion_tokens);
  drop(text.size());
  if (at == std::string_view::npos) return false;
  spaces_.clear();
  opening_ = syntax_.begin;
  drop(syntax_.begin.size());
  where_ = Where::kHeader;
  return true;
}

}  // namespace ibid
