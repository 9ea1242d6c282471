#include "templates/reply/channel_parser.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "templates/reply/call_reader.h"

namespace ibid {
namespace {

// Maximum bytes of a header, which has a few words. Text without a header is content.
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

ChannelParser::ChannelParser(const ChannelSyntax& syntax, OfferedTools tools, const ReplyContext& context)
    : syntax_(syntax),
      tools_(std::move(tools)),
      body_steps_(make_call_steps(syntax.body_calls.value_or(CallSyntax()))),
      streams_(context.stream_calls && !syntax.body_calls),
      discards_incomplete_call_(context.demands_call) {}

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
  if (where_ == Where::kBody) end_body(true, out);
  if (where_ == Where::kHeader && !is_cut_header()) emit_content(opening_ + std::string(held()), out);
}

// True if the answer ended inside a header, whose words are no content.
bool ChannelParser::is_cut_header() const {
  if (syntax_.recipient.empty()) return held().empty();
  if (!opening_.empty()) return true;
  const std::string_view text = trim_marker_spaces(held());
  const auto begins = [text](std::string_view marker) {
    marker = trim_marker_spaces(marker);
    return text.starts_with(marker) || marker.starts_with(text);
  };
  return begins(syntax_.channel) || begins(syntax_.recipient.substr(0, syntax_.recipient.find('=') + 1));
}

bool ChannelParser::in_header(ReplyOutput& out) {
  const size_t end = held().substr(0, kMaxHeaderBytes + syntax_.body_begin.size()).find(syntax_.body_begin);
  if (end == held().npos) {
    if (held().size() < kMaxHeaderBytes + syntax_.body_begin.size()) return false;
    header_.clear();
    body_ = Body::kContent;
    where_ = Where::kBody;
    emit_content(std::exchange(opening_, {}), out);
    return true;
  }
  header_ = held().substr(0, end);
  opening_ += header_ + syntax_.body_begin;
  drop(end + syntax_.body_begin.size());
  begin_body(out);
  return true;
}

std::string_view ChannelParser::word_after(std::string_view marker) const {
  const size_t at = header_.rfind(marker, marker.empty() ? 0 : std::string::npos);
  if (at == std::string::npos) return {};
  const std::string_view rest = std::string_view(header_).substr(at + marker.size());
  return rest.substr(0, rest.find_first_of(" \n\t\r<"));
}

void ChannelParser::begin_body(ReplyOutput& out) {
  where_ = Where::kBody;
  body_ = Body::kContent;
  tool_ = word_after(syntax_.recipient);
  const std::string_view channel = word_after(syntax_.channel);
  const bool only_recipients = syntax_.channel == syntax_.recipient;
  if (!only_recipients && tool_.empty()) {
    // The recipient may lack the prefix of tools ("functions.") or have another prefix. Then the whole word after "to="
    // is the tool's name.
    tool_ = word_after(syntax_.recipient.substr(0, syntax_.recipient.find('=') + 1));
  }
  const std::vector<std::string>& reasoning = syntax_.reasoning_channels;
  if (!tool_.empty() && tools_.has(tool_)) {
    body_ = Body::kCall;
    call_.clear();
    json_.emplace();
  } else if (std::find(reasoning.begin(), reasoning.end(), channel) != reasoning.end()) {
    body_ = Body::kReasoning;
    if (std::exchange(reasoning_emitted_, true)) out.reasoning("\n");
  } else if (syntax_.recipient.empty() && channel != syntax_.content_channel) {
    emit_content(opening_,
                 out);  // without a known recipient or channel, the beginning is an ordinary line and not a header
  } else if (syntax_.body_calls && !tools_.empty()) {
    body_ = Body::kUndecided;
    call_.clear();
    json_.emplace();
  } else if (content_emitted_) {
    out.content("\n");
  }
}

void ChannelParser::begin_content(std::string_view text, ReplyOutput& out) {
  body_ = Body::kContent;
  if (content_emitted_ && !text.empty()) out.content("\n");
  emit_content(text, out);
}

// Decides whether a body is a call: whatever the recipient is, a body that begins like a call is one.
void ChannelParser::decide_body(ReplyOutput& out) {
  const size_t n_spaces = std::min(call_.find_first_not_of(" \n\t\r"), call_.size());
  const std::string_view text = std::string_view(call_).substr(n_spaces);
  const std::vector<std::string>& triggers = syntax_.body_calls->triggers;
  const auto is_there = [text](std::string_view trigger) { return text.starts_with(trigger); };
  const auto may_come = [text](std::string_view trigger) { return trigger.starts_with(text); };
  if (n_spaces > kMaxHeaderBytes) {
    begin_content(std::exchange(call_, {}), out);
  } else if (std::ranges::any_of(triggers, is_there)) {
    body_ = Body::kCall;
  } else if (std::ranges::none_of(triggers, may_come)) {
    begin_content(std::exchange(call_, {}), out);
  }
}

ChannelParser::Ending ChannelParser::find_ending() const {
  Ending first{held().size(), 0, false};
  size_t unsure = held().size();  // position in held() of the beginning of a marker whose rest has not arrived
  const auto look = [&](const std::string& marker, bool begins_message) {
    if (marker.empty()) return;
    const size_t at = held().find(marker);
    if (at < first.begin || (at == first.begin && marker.size() > first.length)) {
      first = {at, marker.size(), begins_message};
    } else if (!at_end_) {
      unsure = std::min(unsure, held().size() - n_begins(held(), marker));
    }
  };
  for (const std::string& end : syntax_.ends) look(end, false);
  look(syntax_.begin, true);
  return unsure <= first.begin ? Ending{unsure, 0, false} : first;
}

bool ChannelParser::in_body(ReplyOutput& out) {
  const Ending ending = find_ending();
  take_body(held().substr(0, ending.begin), out);
  drop(ending.begin);
  if (ending.length == 0) return false;
  end_body(false, out);
  opening_.clear();
  if (ending.begins_message) opening_ = held().substr(0, ending.length);
  drop(ending.length);
  where_ = ending.begins_message ? Where::kHeader : Where::kBetween;
  return true;
}

void ChannelParser::emit_content(std::string_view text, ReplyOutput& out) {
  out.content(text);
  content_emitted_ |= !text.empty();
}

void ChannelParser::take_body(std::string_view text, ReplyOutput& out) {
  if (body_ == Body::kReasoning) return out.reasoning(text);
  if (body_ == Body::kContent) return emit_content(text, out);
  if (body_ == Body::kUndecided) {
    call_ += text;
    return decide_body(out);
  }
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

// Reads a body of whole calls. Returns false if it is anything else.
bool ChannelParser::read_calls_of_body(ReplyOutput& out) {
  std::vector<ParsedCall> calls;
  for (std::string_view rest = trim_marker_spaces(call_); !rest.empty() || calls.empty();) {
    CallReader reader(body_steps_, tools_, first_step_at(body_steps_, rest, 0));
    if (reader.read(rest, true) != CallReader::State::kDone) return false;
    calls.push_back(reader.call(rest));
    rest = trim_marker_spaces(rest.substr(reader.n_taken()));
  }
  for (const ParsedCall& call : calls) out.complete_call(call);
  return true;
}

void ChannelParser::end_body(bool is_cut, ReplyOutput& out) {
  if (body_ == Body::kUndecided) begin_content(std::exchange(call_, {}), out);
  if (body_ != Body::kCall) return;
  body_ = Body::kContent;
  if (syntax_.body_calls && read_calls_of_body(out)) return;
  const std::string_view arguments = trim_marker_spaces(call_);
  const Result<Json> value = parse_json(arguments, "arguments of a call");
  if (!syntax_.body_calls && value.ok() && value->is_object()) {
    out.complete_call({{}, tool_, std::string(arguments)});
    return;
  }
  if (out.in_call()) out.break_call();
  if (is_cut && discards_incomplete_call_) return;
  if (content_emitted_) out.content("\n");
  emit_content(call_, out);
}

bool ChannelParser::between(ReplyOutput& out) {
  const size_t at = held().find(syntax_.begin);
  const size_t n_unsure = at == held().npos && !at_end_ ? n_begins(held(), syntax_.begin) : 0;
  const std::string_view text = held().substr(0, std::min(at, held().size() - n_unsure));
  // Between messages only spaces are expected. Other text is content, including the spaces before it.
  const size_t n_content_bytes = n_without_end_spaces(text);
  if (n_content_bytes > 0) {
    spaces_ += text.substr(0, n_content_bytes);
    emit_content(std::exchange(spaces_, {}), out);
  }
  spaces_ += text.substr(n_content_bytes);
  drop(text.size());
  if (at == std::string_view::npos) return false;
  spaces_.clear();
  opening_ = syntax_.begin;
  drop(syntax_.begin.size());
  where_ = Where::kHeader;
  return true;
}

}  // namespace ibid
