#include "apps/chat/attached_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

class AttachedFiles : public testing::Test {
 protected:
  MessageWithFiles found(const std::string& text) {
    Result<MessageWithFiles> message = find_attached_files(system_file_ops(), text);
    EXPECT_TRUE(message.ok()) << message.status().message();
    return message.ok() ? *std::move(message) : MessageWithFiles{};
  }

  TempDir dir_;
};

TEST_F(AttachedFiles, AtSignBeforeAFileNameAttachesTheFile) {
  const std::string notes = dir_.write("notes.txt", "one\ntwo\n");
  const std::string blank = dir_.write("my notes.txt", "three");
  std::string escaped = blank;
  escaped.replace(escaped.find(' '), 1, "\\ ");
  for (const std::string& text :
       {"Sum up @" + notes, "@" + notes + " sum up", "Look (@" + notes + ").", "@" + notes + "?"}) {
    const MessageWithFiles message = found(text);
    ASSERT_EQ(message.files.size(), 1u) << text;
    EXPECT_EQ(message.files[0].path, notes);
    EXPECT_EQ(message.files[0].text, "one\ntwo");
    EXPECT_EQ(message.text.find('@'), std::string::npos);
  }
  EXPECT_EQ(found("a @\"" + blank + "\", b").files.at(0).text, "three");
  EXPECT_EQ(found("a @" + escaped + ", b").files.at(0).text, "three");
  EXPECT_EQ(found("a @\"" + blank + "\", b").text, "a " + blank + ", b");
  EXPECT_EQ(found("@" + notes + " and @" + notes + " and @\"" + blank + "\"").files.size(), 2u) << "each file once";
}

TEST_F(AttachedFiles, AtSignWithoutAFileStaysText) {
  const std::string notes = dir_.write("notes.txt", "one");
  for (const std::string& text :
       {std::string("write to me@example.org"), std::string("@nobody hello"), std::string("@"), std::string("@\"open"),
        "mail@" + notes, "@" + dir_.path(), std::string("@ @@ \"@\"")}) {
    const MessageWithFiles message = found(text);
    EXPECT_TRUE(message.files.empty()) << text;
    EXPECT_EQ(message.text, text);
  }
}

TEST_F(AttachedFiles, ErrorsForFilesThatAreNotTextNameTheFile) {
  const std::pair<const char*, std::string> bad[] = {
      {"latin1.txt", "caf\xe9"}, {"nul.bin", std::string("a\0b", 3)}, {"empty.txt", ""}, {"mark.txt", "\xEF\xBB\xBF"}};
  for (const auto& [name, bytes] : bad) {
    const std::string path = dir_.write(name, bytes);
    const Result<MessageWithFiles> message = find_attached_files(system_file_ops(), "see @" + path);
    EXPECT_EQ(message.status().code(), ErrorCode::kInvalidArgument) << name;
    EXPECT_THAT(message.status().message(), HasSubstr(name));
  }
  const std::string large = dir_.write("large.txt", std::string(kMaxAttachedBytes + 1, 'x'));
  EXPECT_EQ(read_attached_file(system_file_ops(), large).status().code(), ErrorCode::kLimitExceeded);
  EXPECT_EQ(read_attached_file(system_file_ops(), dir_.file("none")).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(read_attached_file(system_file_ops(), dir_.path()).status().code(), ErrorCode::kNotRegularFile);
}

TEST_F(AttachedFiles, FilesFollowTheTextInCodeFencesLongerThanAnyInside) {
  EXPECT_EQ(message_with_files({"Sum up n.txt", {{"n.txt", "one\ntwo"}}}),
            "Sum up n.txt\n\nn.txt:\n```\none\ntwo\n```");
  EXPECT_EQ(message_with_files({"", {{"n.md", "````\nx\n````"}}}), "n.md:\n`````\n````\nx\n````\n`````");
  const std::string marked = dir_.write("marked.txt", "\xEF\xBB\xBFtext\r\n");
  EXPECT_EQ(read_attached_file(system_file_ops(), marked)->text, "text");
}

TEST_F(AttachedFiles, FirstWordMayContainQuotedOrEscapedBlanks) {
  EXPECT_EQ(take_word("a b  c").word, "a");
  EXPECT_EQ(take_word("a b  c").rest, "b  c");
  EXPECT_EQ(take_word("\"a b\"  c").word, "a b");
  EXPECT_EQ(take_word("\"a b\"  c").rest, "c");
  EXPECT_EQ(take_word("a\\ b c").word, "a b");
  EXPECT_EQ(take_word("a\\ b c").rest, "c");
  EXPECT_EQ(take_word("").word, "");
}

}  // namespace
}  // namespace ibid
