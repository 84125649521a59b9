"""Run the stages of a run; no module here names a kind of stage, such as a fill or a sweep."""
