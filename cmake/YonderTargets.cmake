# yonder_library(NAME SOURCES … HEADERS … [PRIVATE_HEADERS …] [USES …] [LIBS …] [PRIVATE_LIBS …] [TESTS …])
#
# One call per folder. NAME is the folder below yonder/ with "_" for "/", so
# yonder/fabric/shm is yonder_fabric_shm, alias yonder::fabric_shm.
#   USES          folders of ours this one includes (checked by tools/check_layers.py)
#   LIBS          third-party targets that appear in our headers
#   PRIVATE_LIBS  third-party targets that only .cc files use
#   TESTS         *_test.cc files beside the code, one program each; the ending
#                 gives the ctest label: _stress_test.cc is stress,
#                 _model_test.cc is model, every other one is unit
function(yonder_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PRIVATE_HEADERS;USES;LIBS;PRIVATE_LIBS;TESTS;TEST_USES" ${ARGN})
  set(target yonder_${NAME})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_PRIVATE_HEADERS})
  add_library(yonder::${NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME} LINKER_LANGUAGE CXX)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ${YONDER_BUILD_TESTS})
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

# yonder_test(FILE [LIBS …] [LABEL …] [ARGS …]): one test program from one file,
# named after the folder and the file, registered with ctest under its label.
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
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
