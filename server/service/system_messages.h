// System messages: their positions, and descriptions of tools in them. Clients send them anywhere: several at the
// beginning, after the newest message of the user, between a call and its result. Many templates refuse them at these
// places, or do not show them; some templates show no tools. Pure functions.
#pragma once

#include "base/result.h"
#include "runtime/engine/engine_state.h"
#include "server/service/request.h"

namespace ibid::serve {

// Changes the messages to those that the model's template renders. Calling it again changes nothing.
//
// If the request demands a call and the template does not show the tools, the first system message describes them.
//
// Joins system messages after the first message to messages beside them, if the model's template refuses them where
// they are or does not show them: to the user's text before or after; else to the first system message. Prefers the
// change that leaves earlier messages as they are, so that the prefix of the prompt stays the same when the
// conversation grows. If no change makes the messages valid, the request stays as it is, and rendering it returns the
// template's error.
Status prepare_messages(const Engine& engine, AnswerRequest& request);

// For a template that refuses system messages even at the beginning: joins all of them to the first message of the
// user. Returns false if there is no system message.
bool join_system_to_user(AnswerRequest& request);

// True for the errors by which a template refuses a conversation.
bool is_refusal(ErrorCode code);

}  // namespace ibid::serve
