#include "apps/terminal/graphemes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/terminal/edit_buffer.h"

namespace ibid {
namespace {

using testing::ElementsAre;

std::vector<std::string> clusters(const std::string& text) {
  std::vector<std::string> found;
  for (size_t i = 0; i < text.size();) {
    const size_t end = grapheme_end(text, i);
    found.push_back(text.substr(i, end - i));
    i = end;
  }
  for (size_t i = text.size(), k = found.size(); i > 0;) {
    const size_t begin = grapheme_begin(text, i);
    EXPECT_EQ(text.substr(begin, i - begin), found.at(--k)) << "in backward order";
    i = begin;
  }
  return found;
}

const std::string kFamily = "\U0001F469\u200D\U0001F469\u200D\U0001F467";

TEST(Graphemes, GraphemesMatchUserPerceivedCharacters) {
  EXPECT_THAT(clusters("ae\u0301\r\nb"), ElementsAre("a", "e\u0301", "\r\n", "b"));
  EXPECT_THAT(clusters(kFamily + kFamily + "x"), ElementsAre(kFamily, kFamily, "x"));
  EXPECT_THAT(clusters("\U0001F44D\U0001F3FD\u2764\uFE0F"), ElementsAre("\U0001F44D\U0001F3FD", "\u2764\uFE0F"));
  EXPECT_THAT(clusters("\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7"),
              ElementsAre("\U0001F1E9\U0001F1EA", "\U0001F1EB\U0001F1F7"));
  EXPECT_THAT(clusters("\u1112\u1161\u11AB\uAC00\u11A8"), ElementsAre("\u1112\u1161\u11AB", "\uAC00\u11A8"));
  EXPECT_THAT(clusters("\u0915\u094D\u0937\u093F\u0915"), ElementsAre("\u0915\u094D\u0937\u093F", "\u0915"));
  EXPECT_THAT(clusters("a\xffz"), ElementsAre("a", "\xff", "z"));
}

TEST(Graphemes, WidthOfGraphemesIsCountedInTerminalColumns) {
  EXPECT_EQ(text_columns("abc"), 3u);
  EXPECT_EQ(text_columns("e\u0301"), 1u);
  EXPECT_EQ(text_columns("\u4e2d\uff01"), 4u);
  EXPECT_EQ(text_columns(kFamily), 2u);
  EXPECT_EQ(text_columns("\U0001F44D\U0001F3FD"), 2u);
  EXPECT_EQ(text_columns("\u2764"), 1u);
  EXPECT_EQ(text_columns("\u2764\uFE0F"), 2u);
  EXPECT_EQ(text_columns("\U0001F1E9\U0001F1EA"), 2u);
  EXPECT_EQ(text_columns("\u1112\u1161\u11AB"), 2u);
}

TEST(EditBuffer, CursorMovesAndErasesByGraphemeCluster) {
  EditBuffer buffer;
  buffer.insert("a" + kFamily + "b");
  buffer.left();
  buffer.erase_left();
  EXPECT_EQ(buffer.text(), "ab");
  buffer.undo();
  EXPECT_EQ(buffer.text(), "a" + kFamily + "b");
  buffer.to_line_begin();
  buffer.right();
  buffer.erase_right();
  EXPECT_EQ(buffer.text(), "ab");
  buffer.to_line_end();
  buffer.transpose();
  EXPECT_EQ(buffer.text(), "ba");
}

TEST(EditBuffer, ErasesWordsAndLinesAndYanksKilledText) {
  EditBuffer buffer;
  buffer.insert("one two-three\nfour five");
  buffer.erase_argument_left();
  EXPECT_EQ(buffer.text(), "one two-three\nfour ");
  EXPECT_TRUE(buffer.up());
  buffer.to_line_end();
  buffer.erase_word_left();
  EXPECT_EQ(buffer.text(), "one two-\nfour ");
  buffer.kill_to_begin();
  EXPECT_EQ(buffer.text(), "\nfour ");
  buffer.yank();
  EXPECT_EQ(buffer.text(), "one two-\nfour ");
  buffer.kill_to_end();
  EXPECT_EQ(buffer.text(), "one two-four ");
  EXPECT_FALSE(buffer.up());
  EXPECT_FALSE(buffer.down());
}

TEST(EditBuffer, UndoRemovesATypedWordAtOnce) {
  EditBuffer buffer;
  for (const char* c : {"o", "n", "e", " ", "t", "w", "o"}) buffer.insert(c);
  buffer.undo();
  EXPECT_EQ(buffer.text(), "one");
  buffer.undo();
  EXPECT_EQ(buffer.text(), "");
  buffer.undo();
}

TEST(LineLayout, WrapsAtTheWidthAndMovesTheCursorAfterAFullRow) {
  LaidOutText out = lay_out("> ", "abcdefgh", 8, 10);
  EXPECT_THAT(out.rows, ElementsAre("> abcdefgh", ""));
  EXPECT_EQ(out.cursor_row, 1u);
  EXPECT_EQ(out.cursor_column, 0u);
  out = lay_out("> ", "abcdefg\u4e2d", 7, 10);
  EXPECT_THAT(out.rows, ElementsAre("> abcdefg", "\u4e2d"));
  EXPECT_EQ(out.cursor_row, 1u) << "the cursor moves with its character";
  out = lay_out("> ", "abcd" + kFamily + "e", 0, 10);
  EXPECT_THAT(out.rows, ElementsAre("> abcd", kFamily + "e")) << "some terminals use six columns for it";
  out = lay_out("> ", "a\tb\n\nc", 0, 20);
  EXPECT_THAT(out.rows, ElementsAre("> a     b", "", "  c"));
  EXPECT_EQ(out.cursor_column, 2u);
}

}  // namespace
}  // namespace ibid
