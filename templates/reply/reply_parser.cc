#include "templates/reply/reply_parser.h"

#include <memory>
#include <optional>

#include "base/json_limits.h"
#include "templates/reply/channel_parser.h"
#include "templates/reply/marker_parser.h"
#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

ReplyFormat with_reasoning(ReplyFormat format) {
  format.reasoning = reasoning_of(format);
  return format;
}

}  // namespace

struct ReplyParser::State {
  State(const ReplyFormat& format, const ReplyContext& context) {
    OfferedTools tools = context.tools == nullptr ? OfferedTools() : OfferedTools(*context.tools);
    if (format.channels) {
      channels.emplace(*format.channels, std::move(tools), context);
    } else {
      const bool inside = context.begins_in_reasoning || opens_reasoning(format, context.prompt_end);
      markers.emplace(with_reasoning(format), std::move(tools), inside, context);
    }
  }

  ReplyOutput output;
  std::optional<ChannelParser> channels;
  std::optional<MarkerParser> markers;
};

ReplyParser::ReplyParser(const ReplyFormat& format, const ReplyContext& context)
    : state_(std::make_unique<State>(format, context)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

void ReplyParser::feed(std::string_view text, const Listener& on_event) {
  if (text.empty()) return;
  state_->output.set_receiver(&on_event);
  if (state_->channels) {
    state_->channels->feed(text, state_->output);
  } else {
    state_->markers->feed(text, state_->output);
  }
}

void ReplyParser::finish(const Listener& on_event) {
  state_->output.set_receiver(&on_event);
  if (state_->channels) {
    state_->channels->finish(state_->output);
  } else {
    state_->markers->finish(state_->output);
  }
}

const ParsedReply& ReplyParser::reply() const { return state_->output.reply(); }

bool opens_reasoning(const ReplyFormat& format, std::string_view prompt_end) {
  if (format.channels) return false;
  const ReasoningSyntax reasoning = reasoning_of(format);
  while (!prompt_end.empty() && is_marker_space(prompt_end.back())) prompt_end.remove_suffix(1);
  return prompt_end.ends_with(trim_marker_spaces(reasoning.begin));
}

}  // namespace ibid
