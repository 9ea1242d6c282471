#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/pseudo_terminal.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

class ChatTerminal : public testing::Test {
 protected:
  ChatTerminal() {
    write_scripted_model(model_, {{.when = "q.split('\n')|length == 5", .says = "You sent five lines."},
                                  {.when = "'story' in q", .says = "Once upon a time there was", .endless = true},
                                  {.says = "Hello there, my friend."}});
  }

  std::vector<std::string> chat(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {IBID_PROGRAM, "chat", model_};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  TempDir dir_;
  const std::string model_ = dir_.file("scripted.gguf");
};

TEST_F(ChatTerminal, ChatAnswersAndExitsAtControlD) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Hi\r");
  ASSERT_TRUE(terminal.shows("Hello there, my friend.\n"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_status(), 0);
  EXPECT_TRUE(terminal.is_as_found());
}

TEST_F(ChatTerminal, ControlCStopsAnAnswer) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Tell me a story\r");
  ASSERT_TRUE(terminal.shows("upon"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped"));
  ASSERT_TRUE(terminal.prompts());
}

TEST_F(ChatTerminal, ControlZSuspendsAndContinues) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.stops());
  terminal.resume();
  terminal.type("Hi\r");
  ASSERT_TRUE(terminal.shows("Hello there, my friend.\n"));
}

}  // namespace
}  // namespace ibid
