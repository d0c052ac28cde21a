# The vocabulary of our CMakeLists: yonder_library, yonder_test, yonder_fuzzer,
# yonder_vm_test.

# Building these builds all test programs, and all fuzzers, but not the rest.
add_custom_target(yonder_tests)
# Of these, what runs under sanitizers (INSTRUMENTED in the Makefile): building programs
# that will not run costs a third of the time.
add_custom_target(yonder_instrumented_tests)
add_custom_target(yonder_fuzzers)

# yonder_library(NAME SOURCES … HEADERS … [PRIVATE_HEADERS …] [USES …] [LIBS …] [PRIVATE_LIBS …]
#                [TESTS …] [TEST_USES …])
#
# One call per folder. NAME is the folder below yonder/ with "_" for "/", so
# yonder/fabric/shm is yonder_fabric_shm, alias yonder::fabric_shm.
#   USES          folders of ours this one includes (checked by tools/check_layers.py)
#   LIBS          third-party targets that appear in our headers
#   PRIVATE_LIBS  third-party targets that only .cc files use
#   TESTS         *_test.cc files beside the code, one program each; the ending
#                 gives the ctest label: _stress_test.cc is stress,
#                 _model_test.cc is model, every other one is unit
#   TEST_USES     further folders of ours that only the tests include
function(yonder_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PRIVATE_HEADERS;USES;LIBS;PRIVATE_LIBS;TESTS;TEST_USES" ${ARGN})
  set(target yonder_${NAME})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_PRIVATE_HEADERS})
  add_library(yonder::${NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME} LINKER_LANGUAGE CXX
    UNITY_BUILD ${YONDER_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  # A .inc file is included in the middle of another file, so it is installed
  # like a header but not compiled on its own.
  set(textual ${ARG_HEADERS})
  list(FILTER textual INCLUDE REGEX "\\.inc$")
  list(FILTER ARG_HEADERS EXCLUDE REGEX "\\.inc$")
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS}
    FILE_SET textual TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${textual})
  set_target_properties(${target} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ${YONDER_BUILD_TESTS} INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  target_compile_features(${target} PUBLIC cxx_std_23)
  list(TRANSFORM ARG_USES PREPEND yonder::)
  target_link_libraries(${target} PUBLIC ${ARG_USES} ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:yonder_warnings> $<BUILD_INTERFACE:yonder_sanitizers>)
  set_property(GLOBAL APPEND PROPERTY YONDER_LIBRARIES ${target})
  list(TRANSFORM ARG_TEST_USES PREPEND yonder::)
  foreach(test IN LISTS ARG_TESTS)
    yonder_test(${test} LIBS yonder::${NAME} ${ARG_TEST_USES})
  endforeach()
endfunction()

# yonder_test(FILE [LIBS …] [LABEL …] [ARGS …] [TIMEOUT s]): one test program
# from one file, named after the folder and the file, registered with ctest
# under its label.
function(yonder_test FILE)
  if(NOT YONDER_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "LIBS;ARGS" ${ARGN})
  cmake_path(GET FILE STEM stem)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "yonder/" "" folder ${folder})
  string(REPLACE "/" "_" prefix ${folder})
  set(name ${prefix}_${stem})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
    if(stem MATCHES "_stress_test$")
      set(ARG_LABEL stress)
    elseif(stem MATCHES "_model_test$")
      set(ARG_LABEL model)
    endif()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${FILE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} yonder_test_main yonder_warnings yonder_sanitizers)
  if(YONDER_TEST_PCH)
    target_precompile_headers(${name} REUSE_FROM yonder_test_main)
  endif()
  add_dependencies(yonder_tests ${name})
  if(ARG_LABEL MATCHES "^(unit|stress|model|sim)$")
    add_dependencies(yonder_instrumented_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# yonder_fuzzer(FILE [LIBS …]): a libFuzzer program from one file of fuzz/, named
# after the file. Its ctest test (label fuzz) starts from the kept inputs in
# fuzz/corpus/NAME/ and runs for YONDER_FUZZ_SECONDS; what it finds new stays in
# the build directory.
set(YONDER_FUZZ_SECONDS 5 CACHE STRING "How long each fuzz test runs")
function(yonder_fuzzer FILE)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  cmake_path(GET FILE STEM name)
  add_executable(${name} ${FILE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} yonder_warnings yonder_sanitizers)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(yonder_fuzzers ${name})
  set(found ${CMAKE_BINARY_DIR}/corpus/${name})
  file(MAKE_DIRECTORY ${found})
  set(kept ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  if(NOT IS_DIRECTORY ${kept})
    set(kept)
  endif()
  math(EXPR timeout "${YONDER_FUZZ_SECONDS} + 120")
  add_test(NAME ${name}
    COMMAND ${name} -max_total_time=${YONDER_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
            -print_final_stats=1 -artifact_prefix=${CMAKE_BINARY_DIR}/ ${found} ${kept})
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
endfunction()

# yonder_vm_test(NAME COMMANDS "line" … [HOSTS n] [TIMEOUT s]): a test (label vm)
# that boots the Soft-RoCE guest once and runs each shell command line in it, in
# order; it passes if all do. A line may use $<TARGET_FILE:x>. Where the guest
# cannot be had the test counts as skipped and says why.
function(yonder_vm_test NAME)
  if(NOT YONDER_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "HOSTS;TIMEOUT" "COMMANDS" ${ARGN})
  if(NOT ARG_HOSTS)
    set(ARG_HOSTS 0)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  # Two boots of 180 s may be tried before the commands start.
  math(EXPR limit "${ARG_TIMEOUT} + 400")
  add_test(NAME ${NAME}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/run-in-rdma-vm --hosts ${ARG_HOSTS} --timeout ${ARG_TIMEOUT}
            --see ${PROJECT_SOURCE_DIR} --see ${CMAKE_BINARY_DIR} -- ${ARG_COMMANDS})
  # The guest's two CPUs are threads of ours: it counts as two tests.
  set_tests_properties(${NAME} PROPERTIES LABELS vm TIMEOUT ${limit} SKIP_RETURN_CODE 77 PROCESSORS 2)
endfunction()
