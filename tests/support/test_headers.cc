// Does nothing; CMakeLists.txt explains ibid_test_headers.
int main() { return 0; }
