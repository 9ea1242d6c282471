#include "apps/terminal/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const CompletionWords kWords = {
    {"/read", "/regen", "/exit"}, {"/read"}, {{"/set", {"top-k ", "top-p ", "seed "}}, {"/set seed", {"random"}}}};

TEST(Completion, CompletesCommandsAtTheStartOfAMessage) {
  EXPECT_THAT(complete("/re", kWords).candidates, ElementsAre("/read ", "/regen "));
  EXPECT_THAT(complete("/e", kWords).candidates, ElementsAre("/exit "));
  EXPECT_THAT(complete("say /e", kWords).candidates, IsEmpty());
  EXPECT_THAT(complete("", kWords).candidates, IsEmpty());
  EXPECT_THAT(complete("/set top-p", kWords).candidates, ElementsAre("top-p "));
  EXPECT_THAT(complete("/set ", kWords).candidates, ElementsAre("seed ", "top-k ", "top-p "));
  EXPECT_EQ(complete("/set  t", kWords).begin, 6u);
  EXPECT_THAT(complete("/set seed r", kWords).candidates, ElementsAre("random"));
  EXPECT_THAT(complete("/set top-k ", kWords).candidates, IsEmpty());
  EXPECT_THAT(complete("/exit ", kWords).candidates, IsEmpty());
  EXPECT_THAT(complete("set t", kWords).candidates, IsEmpty());
  EXPECT_EQ(common_beginning({"/read ", "/regen "}), "/re");
  EXPECT_EQ(common_beginning({"a\u0301b", "a\u0300b"}), "") << "no partial character";
}

TEST(Completion, CompletesFilesAfterACommandOrAnAtSign) {
  const TempDir dir;
  for (const char* name : {"notes.md", "notes too.md", ".hidden", "bad\x1b[2J"}) dir.write(name, "");
  std::filesystem::create_directory(dir.file("nothing"));
  const std::string in_dir = dir.path() + "/";
  Completion files = complete("/read " + in_dir + "no", kWords);
  EXPECT_EQ(files.begin, 6u);
  EXPECT_THAT(files.candidates, ElementsAre(in_dir + "notes.md", in_dir + "notes\\ too.md", in_dir + "nothing/"));
  files = complete("look at @" + in_dir + "notes\\ t", kWords);
  EXPECT_EQ(files.begin, 9u);
  EXPECT_THAT(files.candidates, ElementsAre(in_dir + "notes\\ too.md"));
  EXPECT_EQ(complete("@" + in_dir, kWords).candidates.size(), 3u) << "no hidden files or escape sequences";
  EXPECT_THAT(complete("@" + in_dir + ".", kWords).candidates, ElementsAre(in_dir + ".hidden"));
  EXPECT_THAT(complete("me@" + in_dir, kWords).candidates, IsEmpty()) << "@ inside a word";
  const ScopedVariable home("HOME", dir.path());
  EXPECT_THAT(complete("@~/nothi", kWords).candidates, ElementsAre("~/nothing/"));
}

}  // namespace
}  // namespace ibid
