// Does nothing: see ibid_test_headers in CMakeLists.txt.
int main() { return 0; }
