"""Change host settings: values with a reason, recorded before they change."""
