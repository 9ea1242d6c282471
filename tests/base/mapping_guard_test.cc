#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

const auto kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

// A mapping of a file of 'x' that can be truncated.
class Mapping {
 public:
  explicit Mapping(size_t n_pages) : size_(n_pages * kPage), path_(dir_.write("f", std::string(size_, 'x'))) {
    const int fd = ::open(path_.c_str(), O_RDONLY);
    data_ = static_cast<const std::byte*>(::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0));
    ::close(fd);
  }
  ~Mapping() { ::munmap(const_cast<std::byte*>(data_), size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void cut_to(size_t n_pages) { ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(n_pages * kPage)), 0); }
  MappingGuard guard() const { return {data_, size_}; }
  char at_page(size_t page) const { return *reinterpret_cast<const volatile char*>(data_ + page * kPage + 7); }

 private:
  TempDir dir_;
  size_t size_;
  std::string path_;
  const std::byte* data_;
};

void (*bus_handler())(int, siginfo_t*, void*) {
  struct sigaction current {};
  ::sigaction(SIGBUS, nullptr, &current);
  return current.sa_sigaction;
}

TEST(MappingGuardTest, LostPagesReadAsZerosAndAreReported) {
  Mapping mapping(8);
  const MappingGuard guard = mapping.guard();
  for (size_t page = 0; page < 8; ++page) EXPECT_EQ(mapping.at_page(page), 'x');
  mapping.cut_to(3);
  EXPECT_FALSE(guard.lost()) << "not read yet";
  EXPECT_EQ(mapping.at_page(5), '\0');
  EXPECT_TRUE(guard.lost());
  EXPECT_EQ(mapping.at_page(2), 'x');
  for (size_t page = 3; page < 8; ++page) EXPECT_EQ(mapping.at_page(page), '\0');
}

TEST(MappingGuardTest, LossIsReportedPerMapping) {
  Mapping a(4), b(4);
  const MappingGuard guard_a = a.guard();
  MappingGuard moved = b.guard();
  const MappingGuard guard_b = std::move(moved);
  b.cut_to(1);
  EXPECT_EQ(b.at_page(3), '\0');
  EXPECT_TRUE(guard_b.lost());
  EXPECT_FALSE(guard_a.lost());
  const MappingGuard nothing;
  EXPECT_FALSE(nothing.lost());
  EXPECT_FALSE(moved.lost());  // NOLINT(bugprone-use-after-move): a moved-from guard guards nothing
}

TEST(MappingGuardTest, GuardInAReusedSlotReportsNoEarlierLoss) {
  {
    Mapping mapping(2);
    const MappingGuard guard = mapping.guard();
    mapping.cut_to(0);
    EXPECT_EQ(mapping.at_page(1), '\0');
    EXPECT_TRUE(guard.lost());
  }
  Mapping mapping(2);
  const MappingGuard guard = mapping.guard();
  EXPECT_EQ(mapping.at_page(1), 'x');
  EXPECT_FALSE(guard.lost());
}

TEST(MappingGuardTest, ThreadsMayFaultConcurrently) {
  constexpr size_t kThreads = 4, kPages = 64;
  Mapping mapping(kPages);
  const MappingGuard guard = mapping.guard();
  mapping.cut_to(0);
  std::atomic<size_t> n_zeros = 0;
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kPages; ++i) n_zeros += mapping.at_page((i * 7 + t * 13) % kPages) == '\0' ? 1 : 0;
    });
  }
  threads.clear();
  EXPECT_EQ(n_zeros, kThreads * kPages);
}

TEST(MappingGuardTest, DestroyingTheLastGuardRestoresThePreviousHandler) {
  auto* const before = bus_handler();
  {
    Mapping a(1), b(1);
    MappingGuard first = a.guard();
    const MappingGuard second = b.guard();
    EXPECT_NE(bus_handler(), before);
    first = MappingGuard();
    EXPECT_NE(bus_handler(), before);
  }
  EXPECT_EQ(bus_handler(), before);
}

// A fault outside the guarded mappings is forwarded to the previous handler; the default one ends the process. Each
// case runs in a child process, because a handler cannot return from a fault that it does not repair. The parent owns
// the files: a child killed by a signal removes nothing.
TEST(MappingGuardDeathTest, FaultsOutsideTheMappingAreForwarded) {
  Mapping guarded(1), other(1);
  const auto with_handler = [&] {
    struct sigaction action {};
    action.sa_handler = [](int) { ::_exit(42); };
    ::sigaction(SIGBUS, &action, nullptr);
    const MappingGuard guard = guarded.guard();
    other.cut_to(0);
    ::_exit(other.at_page(0));
  };
  EXPECT_EXIT(with_handler(), testing::ExitedWithCode(42), "");
  const auto by_default = [&] {
    std::signal(SIGBUS, SIG_DFL);
    const MappingGuard guard = guarded.guard();
    other.cut_to(0);
    ::_exit(other.at_page(0));
  };
  EXPECT_EXIT(by_default(), testing::KilledBySignal(SIGBUS), "");
  const auto sent = [&] {
    std::signal(SIGBUS, SIG_DFL);
    const MappingGuard guard = guarded.guard();
    ::raise(SIGBUS);
    ::_exit(0);
  };
  EXPECT_EXIT(sent(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace ibid
