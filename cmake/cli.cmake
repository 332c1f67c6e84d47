# The command line: cli/*.c and bench/*.c over the public headers and libsnls.so.
set(SNLS_HAVE_CLI OFF)
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c ${PROJECT_SOURCE_DIR}/bench/*.c)
if(SNLS_BUILD_CLI AND cli_sources)
    if(SNLS_HAVE_JANSSON)
        set(SNLS_HAVE_CLI ON)
    elseif(NOT SNLS_WITH_JANSSON)
        message(STATUS "SNLS_WITH_JANSSON is OFF: the command line, which needs jansson, is not built")
    else()
        message(WARNING "jansson was not found: the command line is not built (Debian: apt-get install pkg-config libjansson-dev)")
    endif()
endif()

if(SNLS_HAVE_CLI)
    add_executable(snls ${cli_sources} ${SNLS_SANITIZE_SOURCE})
    target_include_directories(snls PRIVATE ${PROJECT_SOURCE_DIR}/cli ${PROJECT_SOURCE_DIR}/bench)
    target_link_libraries(snls PRIVATE snls_flags snls_shared PkgConfig::jansson m)
    foreach(name OPENMP PNG JPEG LAPACK DNNL) # for snls info
        target_compile_definitions(snls PRIVATE SNLS_WITH_${name}=$<BOOL:${SNLS_HAVE_${name}}>)
    endforeach()
    if(DEFINED ENV{SOURCE_DATE_EPOCH}) # a packager's date in the manual pages; else that of the version
        string(TIMESTAMP date "%Y-%m-%d" UTC)
        set_source_files_properties(${PROJECT_SOURCE_DIR}/cli/man.c PROPERTIES COMPILE_DEFINITIONS "SNLS_DATE=\"${date}\"")
    endif()
    # weights that come with snls, for the program in the build folder, wherever that is
    file(RELATIVE_PATH build_to_weights ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/weights)
    file(CREATE_LINK ${build_to_weights} ${PROJECT_BINARY_DIR}/weights SYMBOLIC)
    file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(snls PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")

    # Manual pages and completion, written by the program itself.
    set(SNLS_PAGES ${PROJECT_BINARY_DIR}/share)
    add_custom_command(OUTPUT ${SNLS_PAGES}/stamp
        COMMAND bash ${PROJECT_SOURCE_DIR}/tools/make_pages.sh $<TARGET_FILE:snls> ${SNLS_PAGES}
        DEPENDS snls ${PROJECT_SOURCE_DIR}/tools/make_pages.sh VERBATIM)
    add_custom_target(snls_pages ALL DEPENDS ${SNLS_PAGES}/stamp)
endif()
