#include "runtime/session/turn_reply.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/json_limits.h"
#include "runtime/engine/engine_state.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"

namespace ibid {

Json message_of_answer(const Turn& turn) {
  ParsedReply reply{turn.reasoning, turn.content, {}};
  for (const ToolCall& call : turn.tool_calls) reply.calls.push_back({call.id, call.name, call.arguments});
  return protocol_message(reply);
}

Tokens shown_tokens(const EngineState& engine, bool with_calls) {
  const TokenSpan markers = engine.marker_tokens();
  Tokens shown(markers.begin(), markers.end());
  if (with_calls) return shown;
  const ReplyFormat format = without_calls(engine.reply_format());
  std::erase_if(shown, [&](TokenId id) { return !is_marker(format, engine.tokenizer().token_bytes(id)); });
  return shown;
}

TurnReply::TurnReply(const ReplyFormat& format, const ReplyContext& context, uint64_t seed,
                     std::string_view continued_text)
    : parser_(format, context), seed_(seed), continues_(!continued_text.empty()) {
  if (!continues_) return;
  // The parser holds back bytes that may begin a marker. A character that no marker contains makes it release them as
  // text, also those of a marker that ends a turn.
  constexpr char kInNoMarker = '\1';
  ReplyParser alone(format, context);
  alone.feed(std::string(continued_text) + kInNoMarker, {});
  alone.finish({});
  parser_.feed(continued_text, {});
  const auto n_held = [](const std::string& released, const std::string& shown) {
    return saturating_sub(released.size() - (released.ends_with(kInNoMarker) ? 1 : 0), shown.size());
  };
  content_so_far_ = alone.reply().content;
  if (content_so_far_.ends_with(kInNoMarker)) content_so_far_.pop_back();
  n_held_content_ = n_held(alone.reply().content, parser_.reply().content);
  n_held_reasoning_ = n_held(alone.reply().reasoning, parser_.reply().reasoning);
}

// Removes the text of the continued answer from an event. Returns false if nothing of the event is left.
bool TurnReply::take_added(TurnEvent& event) {
  const bool is_content = event.kind == TurnEvent::Kind::kContent;
  const size_t n_held = is_content ? n_held_content_ : n_held_reasoning_;
  n_held_content_ = n_held_reasoning_ = 0;  // held bytes are in the first event, or were part of a marker
  if (!is_content && event.kind != TurnEvent::Kind::kReasoning) return true;
  event.text.erase(0, std::min(n_held, event.text.size()));
  (is_content ? added_.content : added_.reasoning) += event.text;
  return !event.text.empty();
}

ReplyParser::Listener TurnReply::with_ids(const ReplyParser::Listener& on_event) {
  if (!on_event && !continues_) return {};
  return [this, &on_event](const TurnEvent& event) {
    if (continues_) {
      TurnEvent added = event;
      if (!take_added(added) || !on_event) return;
      if (added.kind == TurnEvent::Kind::kContent || added.kind == TurnEvent::Kind::kReasoning) return on_event(added);
    }
    if (event.kind != TurnEvent::Kind::kCallBegin && event.kind != TurnEvent::Kind::kCallEnd) return on_event(event);
    ids_.calls.resize(event.call);
    ids_.calls.push_back({.id = event.id});
    assign_call_ids(ids_, seed_);
    TurnEvent named = event;
    named.id = ids_.calls.back().id;
    on_event(named);
  };
}

void TurnReply::feed(std::string_view text, const ReplyParser::Listener& on_event) {
  n_bytes_ += text.size();
  parser_.feed(text, with_ids(on_event));
}

ParsedReply TurnReply::finish(std::string_view text, const ReplyParser::Listener& on_event) {
  if (text.size() > n_bytes_) feed(text.substr(n_bytes_), on_event);
  parser_.finish(with_ids(on_event));
  ParsedReply reply = parser_.reply();
  assign_call_ids(reply, seed_);
  return reply;
}

}  // namespace ibid
