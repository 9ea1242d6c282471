// The table of chat commands: help fits into a terminal and agrees with docs/chat.md.
#include "apps/chat/chat_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "apps/chat/sampling_options.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

void expect_narrow(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    EXPECT_LE(end - begin, 78u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(ChatCommand, CommandNamesAreUniqueAndHelpFitsTheTerminal) {
  std::set<std::string_view> names;
  for (const ChatCommand& command : chat_commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    if (!command.alias.empty()) {
      EXPECT_TRUE(names.insert(command.alias).second) << command.alias;
    }
    EXPECT_EQ(find_chat_command(command.name), &command);
    EXPECT_LE(command.min_words, command.max_words);
    EXPECT_EQ(command.arguments.empty(), command.max_words == 0) << command.name;
    expect_narrow(help_of(command));
  }
  expect_narrow(help_of_all_commands());
}

TEST(ChatCommand, CommandIsFoundByAliasAndInCapitals) {
  EXPECT_EQ(find_chat_command("/?"), find_chat_command("/help"));
  EXPECT_EQ(find_chat_command("/QUIT"), find_chat_command("/exit"));
  EXPECT_EQ(find_chat_command("/When-Full")->name, "/when-full");
  for (const char* other : {"", "/", "help", "/hel", "/help ", "/etc/passwd"})
    EXPECT_EQ(find_chat_command(other), nullptr);
}

TEST(ChatCommand, DocumentationListsTheSameCommands) {
  const std::string page = read_whole_file(golden_dir() + "/../../docs/chat.md");
  for (const ChatCommand& command : chat_commands()) {
    std::string usage =
        std::string(command.name) + (command.arguments.empty() ? "" : " ") + std::string(command.arguments);
    for (size_t bar = usage.find('|'); bar != std::string::npos; bar = usage.find('|', bar + 2))
      usage.replace(bar, 1, "\\|");
    EXPECT_THAT(page, HasSubstr("| `" + usage + "` | " + std::string(command.help) + " |"));
  }
}

TEST(ChatCommand, CompletionWordsListEveryCommandAndMarkThoseThatTakeAFile) {
  const CompletionWords words = completion_words();
  EXPECT_EQ(words.commands.size(), chat_commands().size());
  EXPECT_THAT(words.commands_with_file, testing::ElementsAre("/read"));
}

TEST(ChatCommand, CommandArgumentsAreCompleted) {
  const CompletionWords words = completion_words();
  EXPECT_THAT(complete("/set temp", words).candidates, testing::ElementsAre("temperature "));
  EXPECT_THAT(complete("/set stop-repetition o", words).candidates, testing::ElementsAre("off", "on"));
  EXPECT_THAT(complete("/set max-tokens ", words).candidates, testing::ElementsAre("unlimited"));
  EXPECT_THAT(complete("/show see", words).candidates, testing::ElementsAre("seed"));
  EXPECT_THAT(complete("/when-full ", words).candidates, testing::ElementsAre("cut", "drop", "error"));
  EXPECT_THAT(complete("/help reg", words).candidates, testing::ElementsAre("regen"));
  EXPECT_THAT(complete("/goto ", words).candidates, testing::IsEmpty());
  for (const SamplingOption& option : sampling_options()) {
    EXPECT_FALSE(complete("/set " + option.name(), words).candidates.empty()) << option.name();
  }
}

TEST(CommandWords, CountsWordsAndParsesLeadingNumbers) {
  std::string_view text = "12  a b";
  EXPECT_EQ(leading_number(text), 12u);
  EXPECT_EQ(text, "a b");
  text = "99999999999999999999 x";
  EXPECT_EQ(leading_number(text), SIZE_MAX);
  for (const char* none : {"", "x", "-1", "1x", "1.5"}) {
    text = none;
    EXPECT_EQ(leading_number(text), std::nullopt) << none;
    EXPECT_EQ(text, none);
  }
  text = "3\nline";
  EXPECT_EQ(leading_number(text), 3u);
  EXPECT_EQ(count_words("  a  b\nc "), 3u);
  EXPECT_EQ(count_words(" "), 0u);
}

}  // namespace
}  // namespace ibid
