#include "net/unix_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "net/socket_address.h"
#include "tests/support/temp_dir.h"

namespace ibid::net {
namespace {

using testing::HasSubstr;

struct UnixListenerTest : testing::Test {
  const TempDir dir;
  const std::string path = dir.file("socket");
};

bool can_connect(const std::string& path) {
  const sockaddr_un address = *unix_address(path);
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(client);
  return connected;
}

TEST_F(UnixListenerTest, FileIsPrivateUnderAnyUmask) {
  for (const mode_t mask : {0000u, 0022u, 0777u}) {
    const mode_t before = umask(mask);
    const Result<UnixListener> listener = listen_unix(path);
    const mode_t after = umask(before);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    EXPECT_EQ(after, mask);
    struct stat made {};
    ASSERT_EQ(stat(path.c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 07777, 0600u) << mask;
    EXPECT_TRUE(can_connect(path));
    close(listener->descriptor);
  }
}

TEST_F(UnixListenerTest, FileIsRemovedUnlessItWasReplaced) {
  for (const bool is_replaced : {false, true}) {
    {
      const UnixListener listener = *listen_unix(path);
      close(listener.descriptor);
      if (is_replaced) {
        std::filesystem::rename(path, path + ".old");
        std::ofstream(path) << "text";
      }
    }
    EXPECT_EQ(std::filesystem::exists(path), is_replaced);
  }
}

TEST_F(UnixListenerTest, SocketOfAnEndedProcessIsReplacedAndOneInUseIsNot) {
  UnixListener first = *listen_unix(path);
  EXPECT_THAT(listen_unix(path).status().message(), HasSubstr("in use by another program"));
  EXPECT_TRUE(can_connect(path));
  close(first.descriptor);
  const Result<UnixListener> second = listen_unix(path);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_TRUE(can_connect(path));
  close(second->descriptor);
}

TEST_F(UnixListenerTest, OtherFilesAreKept) {
  std::ofstream(path) << "text";
  EXPECT_THAT(listen_unix(path).status().message(), HasSubstr("is not a socket"));
  EXPECT_EQ(std::filesystem::file_size(path), 4u);
  EXPECT_EQ(listen_unix(dir.file(std::string(200, 'x'))).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ibid::net
