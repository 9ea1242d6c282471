#include "tests/support/screen_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(ScreenModel, FullRowWrapsAtTheNextCharacter) {
  ScreenModel screen(3, 4);
  screen.feed("abcd");
  EXPECT_EQ(screen.cursor_row(), 0u);
  EXPECT_EQ(screen.cursor_column(), 3u);
  screen.feed("\r\nef");
  EXPECT_EQ(screen.text(), "abcd\nef") << "no empty row in between";
  screen.feed(
      "gh"
      "i");
  EXPECT_EQ(screen.text(), "abcd\nefgh\ni");
}

TEST(ScreenModel, RowsScrollOutAtTheTop) {
  ScreenModel screen(2, 10);
  screen.feed("one\r\ntwo\r\nthree");
  EXPECT_EQ(screen.text(), "two\nthree");
  EXPECT_EQ(screen.everything(), "one\ntwo\nthree");
}

TEST(ScreenModel, HandlesWideAndCombiningCharactersAndEmoji) {
  ScreenModel screen(3, 5);
  screen.feed("a\u4e2d\u6587");  // fills five columns
  EXPECT_EQ(screen.row(0), "a\u4e2d\u6587");
  screen.feed("\r\nabcd\u4e2d");  // does not fit into the last column
  EXPECT_EQ(screen.row(1), "abcd");
  EXPECT_EQ(screen.row(2), "\u4e2d");
  ScreenModel other(2, 20);
  const std::string family = "\U0001F469\u200D\U0001F469\u200D\U0001F467";
  other.feed("e\u0301" + family + "\U0001F1E9\U0001F1EA\u2764\uFE0F|");
  EXPECT_EQ(other.cursor_column(), 1u + 2 + 2 + 2 + 1);
  EXPECT_EQ(other.row(0), "e\u0301" + family + "\U0001F1E9\U0001F1EA\u2764\uFE0F|");
}

TEST(ScreenModel, ParsesSplitEscapeSequencesAndReportsUnknownSequences) {
  ScreenModel screen(3, 10);
  screen.feed("hello\x1b[");
  screen.feed("2D\x1b[Kp");
  EXPECT_EQ(screen.row(0), "help");
  screen.feed("\x1b[?2004h\x1b[1;31mx\x1b[0m");
  EXPECT_TRUE(screen.bracketed_paste());
  EXPECT_EQ(screen.n_colours(), 2u);
  EXPECT_TRUE(screen.unknown().empty());
  screen.feed("\x1b[5q");
  EXPECT_THAT(screen.unknown(), testing::ElementsAre("[5q"));
}

TEST(ScreenModel, ErasesRowsBelowTheCursorAndOverwrittenWideCharacters) {
  ScreenModel screen(3, 10);
  screen.feed("one\r\ntwo\r\nthree\x1b[2A\r\x1b[1C\x1b[J");
  EXPECT_EQ(screen.text(), "o");
  screen.feed("\r\u4e2d\bx");
  EXPECT_EQ(screen.row(0), " x");
}

}  // namespace
}  // namespace ibid
