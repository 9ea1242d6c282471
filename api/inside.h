// What stands behind the classes that users see (include/ibid), for the files of this folder and their tests. Here
// ibid::Engine, ibid::ChatSession, ibid::TurnStream and ibid::Bell are the classes of runtime; the users' have the
// same names in ibid::api, and only programs outside see them as ibid::Engine and so on: IBID_INSIDE hides that.
#pragma once

#include <memory>
#include <utility>

#include "ibid/chat_session.h"
#include "ibid/engine.h"
#include "ibid/turn_stream.h"
#include "runtime/engine/engine.h"
#include "runtime/scheduler/bell.h"
#include "runtime/session/chat_session.h"

namespace ibid::api {

struct Engine::Parts {
  std::shared_ptr<ibid::Engine> engine;
};

struct ChatSession::Parts {
  std::shared_ptr<Engine> engine;
  ibid::ChatSession session;
};

struct Bell::Parts {
  ibid::Bell bell;
};

struct Inside {
  // The users' handle of an engine that is there.
  static std::shared_ptr<Engine> handle(std::shared_ptr<ibid::Engine> engine) {
    return std::shared_ptr<Engine>(new Engine(std::make_unique<Engine::Parts>(Engine::Parts{std::move(engine)})));
  }
  static ChatSession handle(std::shared_ptr<Engine> engine, ibid::ChatSession session) {
    return ChatSession(
        std::make_unique<ChatSession::Parts>(ChatSession::Parts{std::move(engine), std::move(session)}));
  }
  static const std::shared_ptr<ibid::Engine>& engine(const Engine& engine) { return engine.parts_->engine; }
  static ibid::ChatSession& session(ChatSession& session) { return session.parts_->session; }
  // The same bell, which lives as long as whoever may ring it.
  static std::shared_ptr<ibid::Bell> bell(const std::shared_ptr<Bell>& bell) {
    return bell == nullptr ? nullptr : std::shared_ptr<ibid::Bell>(bell->parts_, &bell->parts_->bell);
  }
};

}  // namespace ibid::api
