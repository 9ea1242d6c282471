// The public classes on an engine with a model of the tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "runtime/session/session_state.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {

// Disables idle work, so that the number of computed tokens is known.
inline ChatSession session_of(const std::shared_ptr<Engine>& engine) {
  Result<ChatSession> created = ChatSession::create(engine, {.repair_when_idle = false});
  EXPECT_TRUE(created.ok()) << created.status().message();
  return *std::move(created);
}

}  // namespace ibid
